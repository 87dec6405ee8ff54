#pragma once

#include <string_view>

#include "runner/parent/config/override_value.h"

namespace runner {

/// True if `function` is int, float, str or bool.
bool is_cast(std::string_view function);

/// Evaluates a call to a cast. Converts every scalar as Python does, even inside lists, mapping
/// values and sweeps; several arguments become a sweep over their values. Drops shuffling and all
/// tags except those of an interval. Throws OverrideError for a value that cannot be converted.
Element cast(FunctionCall call);

}  // namespace runner
