#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"

namespace stages {

/// Returns the number of threads set by a value of OMP_NUM_THREADS, 1 to 1024. If the value is a
/// list, which OpenMP uses for nested teams, this is its first number. nullopt: not a valid number.
std::optional<int> threads_in(const std::string& value);

/// Returns the value of an environment variable; nullopt if it is not set. Callers treat an empty
/// value as not set.
using UserVariable = std::function<std::optional<std::string>(const char* name)>;

/// Reads the environment of this process.
std::optional<std::string> user_variable(const char* name);

/// Checks the environment variables that select kernels and threads. Returns an error for a value
/// that the libraries would silently ignore, and a warning for a number of threads that differs
/// from `threads`, the number in use. If `threads` is nullopt, OMP_NUM_THREADS determines the
/// number, so there is nothing to compare.
runner::Diagnostics check_user_variables(std::optional<int> threads,
                                         const UserVariable& variable = user_variable);

/// Returns only the errors of check_user_variables(); warnings go to `say`.
runner::Diagnostics refused_user_variables(int threads,
                                           const std::function<void(std::string_view line)>& say);

}  // namespace stages
