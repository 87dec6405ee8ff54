#pragma once

#include <string_view>

#include "runner/parent/config/override_value.h"

namespace runner {

/// True if `function` is int, float, str or bool.
bool is_cast(std::string_view function);

/// The element that a call of a cast returns: every scalar in lists, in the values of mappings and
/// in sweeps is converted as Python does; several arguments become several values of a sweep. Drops
/// tags (except those of an interval) and shuffling. Throws OverrideError for values that cannot be
/// converted.
Element cast(FunctionCall call);

}  // namespace runner
