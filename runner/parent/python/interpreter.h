#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// The value of an environment variable.
using Variable = std::function<std::optional<std::string>(const char* name)>;
Variable process_variables();

/// The Python interpreter that `recipe`, resolved, asks for with its key `python`; relative paths
/// start in `folder`, empty: the current one. Without the key, or with `auto`:
/// $VIRTUAL_ENV/bin/python if the variable is set, else python3, else python, in the absolute
/// folders of PATH. Its links are not followed: an environment's interpreter finds the environment
/// by its own path. Fails with kNoPython.
Result<std::filesystem::path> find_interpreter(const Value& recipe,
                                               const std::filesystem::path& folder,
                                               const Variable& variable = process_variables());

}  // namespace runner
