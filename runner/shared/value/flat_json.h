#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace runner {

/// Flattens nested objects into pairs of a dotted key and a value: {"train.epochs", "2"}. Strings
/// are returned unchanged; all other values, including lists and empty objects, as JSON.
std::vector<std::pair<std::string, std::string>> flat_json(const nlohmann::ordered_json& object);

}  // namespace runner
