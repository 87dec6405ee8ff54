#pragma once

#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Lays `over` over `base`: mappings merge key by key, base's keys first; lists and scalars replace what is there;
/// `???` never replaces a value. A list meeting a mapping is an error, added to `errors`; `pointer` is where base
/// stands in the recipe.
void merge(Value& base, Value over, const std::string& pointer, Diagnostics& errors);

/// Is `value` the text `???`, which someone must replace?
bool is_mandatory(const Value& value);

/// Does `value` hold `${`, so that what it is is known only later?
bool is_interpolation(const Value& value);

/// The error of a list that meets a mapping: `over` cannot be put where `base` is.
Diagnostic container_clash(const Value& base, const Value& over, const std::string& pointer);

}  // namespace runner
