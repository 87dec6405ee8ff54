#pragma once

#include "runner/shared/value/value.h"

namespace runner {

/// Where what is wrong with a value as a whole is shown. Of a mapping whose kind was written elsewhere than its first
/// keys, as by an override, that is the kind: it decides which keys there are.
const Location& place_of(const Value& value);

}  // namespace runner
