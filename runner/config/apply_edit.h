#pragma once

#include <optional>
#include <string>

#include "runner/config/edit.h"
#include "runner/value/value.h"

namespace runner {

/// Why a list cannot be changed: "holds no 3", and what to do.
struct EditProblem {
  std::string message;
  std::string help;
};

/// Changes `list` as `edit`, which is not kReplace, says; nothing is changed when there is a problem.
std::optional<EditProblem> apply_edit(Value::List& list, const Edit& edit);

}  // namespace runner
