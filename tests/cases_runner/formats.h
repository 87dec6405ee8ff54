#pragma once

#include <span>
#include <string_view>

#include "tests/cases_runner/verdict.h"

/// A case file's name and what checks its lines. One source file per format.
struct Format {
  std::string_view file;
  CheckCase check;
};

/// In the order in which they are run.
std::span<const Format> all_formats();

Verdict check_parse(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_compose(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_sweep(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_interp(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
Verdict check_yaml(const nlohmann::ordered_json& recorded, const std::filesystem::path& folder);
