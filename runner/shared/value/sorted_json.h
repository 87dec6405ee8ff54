#pragma once

#include <string>

#include "runner/shared/value/value.h"

namespace runner {

/// The text of to_json(value), without blanks and with the keys of mappings sorted: the same however the recipe was
/// written. Recipes are known again by its digest, so it never changes. Throws nlohmann::json::exception for a text
/// that is not UTF-8.
std::string sorted_json(const Value& value);

}  // namespace runner
