#pragma once

#include <optional>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Sees to it that this process, its threads and its workers have a stack that their calls fit on:
/// raises the limit (ulimit -s) where that is too low. An error where the system does not allow it.
std::optional<Diagnostic> raise_stack_limit();

}  // namespace runner
