#pragma once

#include <span>

#include "runner/parent/config/override.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Warnings of the overrides, each of one value, after which another one gives the same key another value: an alias of
/// several keys, perhaps.
Diagnostics overruled_overrides(std::span<const Override> overrides);

}  // namespace runner
