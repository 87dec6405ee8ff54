#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// What an override does to the value that is there, instead of putting another in its place:
///
///   layers=append(4,5)    layers=prepend(0)    layers=insert(1,7)    layers=remove_at(-1)    layers=remove_value(3)
///   train={...}           merges; train=replace({...}) does not
struct Edit {
  enum class Kind { kAppend, kPrepend, kInsert, kRemoveAt, kRemoveValue, kReplace };
  Kind kind = Kind::kAppend;
  std::int64_t index = 0;          ///< of kInsert and kRemoveAt; negative: from the end
  std::vector<Value> values = {};  ///< what is added or removed; of kReplace exactly one
};

/// Why a list cannot be changed: "holds no 3", and what to do.
struct EditProblem {
  std::string message;
  std::string help;
};

/// Changes `list` as `edit`, which is not kReplace, says; nothing is changed when there is a problem.
std::optional<EditProblem> apply_edit(Value::List& list, const Edit& edit);

}  // namespace runner
