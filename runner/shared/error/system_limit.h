#pragma once

#include <exception>
#include <optional>
#include <system_error>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Explains why a system call failed with `code`, if a limit of this process or its container was
/// the cause: which limit was reached, and how to raise it. `doing` says what was attempted, such
/// as "fork". Returns nullopt if `code` does not indicate a limit.
std::optional<Diagnostic> limit_reached(const std::error_code& code, const std::string& doing);

/// Returns the error for an unexpected exception that ended a command: a file that could not be
/// written, a system limit, a missing folder, or else a bug in Retort (kInternal).
Diagnostic unexpected(const std::exception& error);

}  // namespace runner
