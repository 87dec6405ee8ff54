#pragma once

#include <span>
#include <string_view>

#include "tests/cases_runner/verdict.h"

/// The name of a case file and the function that checks its lines. Each format has a source file.
struct Format {
  std::string_view file;
  CheckCase check;
};

/// Returns the formats in the order in which they run.
std::span<const Format> all_formats();

Verdict check_parse(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_compose(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_sweep(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_interp(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_yaml(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
