#pragma once

#include "runner/parent/config/override_value.h"

namespace runner {

/// zip(a=[1,2],b.c=[3,4]): a sweep whose every run sets all the columns' keys, the first run to the
/// first values and so on. The lists are of one length. Throws OverrideError.
Element zip(FunctionCall call);

}  // namespace runner
