#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "runner/shared/error/stage_error.h"

namespace runner {

/// Several failures that were found together; as a StageError it is the first of them.
struct StageErrors : StageError {
  explicit StageErrors(std::vector<StageError> found) : StageError(found.front()), all(std::move(found)) {}
  std::vector<StageError> all;
};

/// Makes several checks, each of which may throw a StageError, and throws all that they have found at once:
///
///   FoundErrors found;
///   for (const Group& group : groups) found.during([&] { check(group); });
///   found.throw_any();
class FoundErrors {
 public:
  template <typename Check>
  void during(const Check& check) {
    try {
      check();
    } catch (const StageErrors& several) {
      for (const StageError& one : several.all) add(one);
    } catch (const StageError& one) {
      add(one);
    }
  }

  /// What was found before is not taken twice.
  void add(const StageError& error) {
    const auto is_same = [&](const StageError& known) {
      return known.option == error.option && std::string_view(known.what()) == error.what();
    };
    if (std::ranges::none_of(found_, is_same)) found_.push_back(error);
  }

  void throw_any() {
    if (!found_.empty()) throw StageErrors(std::move(found_));
  }

 private:
  std::vector<StageError> found_;
};

}  // namespace runner
