#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Returns the value of an environment variable.
using Variable = std::function<std::optional<std::string>(const char* name)>;
Variable process_variables();

/// Returns the Python interpreter for the resolved `recipe`. Its `python` key may specify one; a
/// relative path is resolved against `folder`, or against the current folder if that is empty.
/// Without the key, or with `auto`: $VIRTUAL_ENV/bin/python if the variable is set, else python3,
/// else python, in the absolute folders of PATH. Does not follow links, since an interpreter finds
/// its virtual environment through its own path. Fails with kNoPython.
Result<std::filesystem::path> find_interpreter(const Value& recipe,
                                               const std::filesystem::path& folder,
                                               const Variable& variable = process_variables());

}  // namespace runner
