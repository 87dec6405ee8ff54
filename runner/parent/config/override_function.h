#pragma once

#include "runner/parent/config/override_value.h"

namespace runner {

/// Evaluates a call to one of Hydra's functions (choice, range, interval, glob, shuffle, sort, tag
/// and the casts) or to one of our own (append, prepend, insert, remove_at, remove_value and
/// replace), which return an Edit. Removes quotes from arguments; strings in a sweep stay strings.
/// Throws OverrideError for unknown names, wrong arguments and sweeps inside sweeps.
///
/// For a list that is not a sweep, shuffle([..]) uses seed 0.
Element call_function(FunctionCall call);

/// Returns the value of `element`. Throws OverrideError for a sweep or an edit.
Value plain_value(Element element);

}  // namespace runner
