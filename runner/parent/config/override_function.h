#pragma once

#include "runner/parent/config/override_value.h"

namespace runner {

/// Evaluates a call: Hydra's choice, range, interval, glob, shuffle, sort, tag and the casts; our
/// own append, prepend, insert, remove_at, remove_value and replace return an Edit. Removes the
/// quotes of arguments; texts in a sweep stay texts. Throws OverrideError for unknown names, wrong
/// arguments and sweeps inside sweeps.
///
/// shuffle([..]), with a list and not a sweep, uses the seed 0.
Element call_function(FunctionCall call);

/// Rejects a sweep or an edit where only a value is allowed.
Value plain_value(Element element);

}  // namespace runner
