#pragma once

#include <optional>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// Negative, 0 or positive if `a` comes before, with or after `b`: numbers and booleans by size,
/// texts by their bytes, lists item by item. Nullopt for what has no order: null, mappings, quoted
/// texts, values of two types.
std::optional<int> compare(const Value& a, const Value& b);

}  // namespace runner
