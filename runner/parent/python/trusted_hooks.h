#pragma once

#include <span>

#include "runner/parent/config/override.h"
#include "runner/parent/python/trusted_code.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// True if the resolved recipe names commands that a run would start.
bool has_hooks(const Value& recipe);

/// Returns a kUntrustedCode error for each file that sets commands in the recipe's `hooks` and is
/// not trusted in the version that was read. Overrides need not be trusted, since the user typed
/// them.
Diagnostics untrusted_hooks(const Value& recipe, std::span<const Override> overrides,
                            const TrustedCode& trusted);

}  // namespace runner
