#pragma once

#include <string_view>

#include "runner/parent/config/override_value.h"

namespace runner {

/// Is `function` one of int, float, str and bool?
bool is_cast(std::string_view function);

/// The element that a call of a cast gives: every scalar in lists, in the values of mappings and in
/// sweeps is converted as Python does; several arguments are several values for a sweep. Tags and
/// shuffling are dropped, but for an interval's tags. Throws OverrideError for what cannot be
/// converted.
Element cast(FunctionCall call);

}  // namespace runner
