#pragma once

#include "runner/parent/config/override_value.h"

namespace runner {

/// zip(a=[1,2],b.c=[3,4]): a sweep in which every trial sets all columns' keys: the first trial to
/// the first values and so on. The lists have the same length. Throws OverrideError.
Element zip(FunctionCall call);

}  // namespace runner
