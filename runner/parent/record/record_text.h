#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// Returns the text of a file in a run's record if it is at most 64 MiB; empty if there is no such
/// file.
std::string record_text(const std::filesystem::path& path);
/// Returns a YAML file in the record of a run as JSON; null if it cannot be read.
nlohmann::ordered_json record_from_yaml(const std::filesystem::path& path);

}  // namespace runner
