#pragma once

#include <exception>
#include <optional>
#include <system_error>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Explains to the user why the system refused with `code` while `doing` something, e.g. "fork":
/// which limit of this process or its container was reached, and how to raise it. nullopt if `code`
/// is not such a limit.
std::optional<Diagnostic> limit_reached(const std::error_code& code, const std::string& doing);

/// The error for an unexpected exception that ended a command: a file that could not be written, a
/// limit of the system, a missing folder; else a bug in Retort (kInternal).
Diagnostic unexpected(const std::exception& error);

}  // namespace runner
