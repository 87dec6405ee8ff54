#pragma once

#include <exception>
#include <optional>
#include <system_error>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What it means to a user that the system has refused something with `code` while `doing` it,
/// "fork": a limit of this process or its container that was reached, and how it is raised. nullopt
/// where it is no such limit.
std::optional<Diagnostic> limit_reached(const std::error_code& code, const std::string& doing);

/// What ended a verb that expected none: a file that could not be written, a limit of the system, a
/// folder that is not there; a mistake of ours where it is none of these (kInternal).
Diagnostic unexpected(const std::exception& error);

}  // namespace runner
