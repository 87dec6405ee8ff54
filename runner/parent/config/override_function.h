#pragma once

#include "runner/parent/config/override_value.h"

namespace runner {

/// What a call gives: Hydra's choice, range, interval, glob, shuffle, sort, tag and the casts; ours
/// are append, prepend, insert, remove_at, remove_value and replace, which give an Edit. Quotes of
/// arguments are taken off; a sweep keeps the texts as texts. Throws OverrideError: unknown names,
/// wrong arguments, sweeps inside sweeps.
///
/// shuffle([..]), a list and no sweep, is ordered by the seed 0.
Element call_function(FunctionCall call);

/// Refuses a sweep or an edit where only a value may stand.
Value plain_value(Element element);

}  // namespace runner
