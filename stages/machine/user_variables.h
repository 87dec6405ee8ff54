#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"

namespace stages {

/// The number of threads that a value of OMP_NUM_THREADS asks for, 1 to 1024; of a list, which
/// OpenMP uses for nested teams, the first. nullopt: it asks for none.
std::optional<int> threads_in(const std::string& value);

/// The value of an environment variable; nullopt if it is not set. Empty counts as not set.
using UserVariable = std::function<std::optional<std::string>(const char* name)>;

/// From the process's own environment.
std::optional<std::string> user_variable(const char* name);

/// Checks the variables by which a user selects kernels and threads: an error for a value that the
/// libraries would silently ignore, a warning for a number of threads other than the `threads` in
/// use. `threads` is nullopt if it is not known yet: OMP_NUM_THREADS decides.
runner::Diagnostics check_user_variables(std::optional<int> threads,
                                         const UserVariable& variable = user_variable);

/// Only the errors; the warnings go to `say`.
runner::Diagnostics refused_user_variables(int threads,
                                           const std::function<void(std::string_view line)>& say);

}  // namespace stages
