#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/error/diagnostic.h"

namespace stages {

/// The number of threads that a value of OMP_NUM_THREADS asks for, 1 to 1024; of a list, which
/// OpenMP takes for nested teams, the first. Nullopt: it asks for none.
std::optional<int> threads_in(const std::string& value);

/// The value of an environment variable; nullopt where it is not set. Empty is as good as not set.
using UserVariable = std::function<std::optional<std::string>(const char* name)>;

/// The process's own.
std::optional<std::string> user_variable(const char* name);

/// What cannot be obeyed of the variables by which a user chooses kernels and threads: an error for
/// a value that the libraries would ignore in silence, a warning for a number of threads other than
/// the `threads` that are used. `threads` is nullopt where it is not known yet: OMP_NUM_THREADS
/// decides.
runner::Diagnostics check_user_variables(std::optional<int> threads,
                                         const UserVariable& variable = user_variable);

/// The errors alone; the warnings are said.
runner::Diagnostics refused_user_variables(int threads,
                                           const std::function<void(std::string_view line)>& say);

}  // namespace stages
