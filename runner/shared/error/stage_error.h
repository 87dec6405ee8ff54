#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/error/error_code.h"

namespace runner {

/// A recovery: the run continued after it ran out of memory, or after its device or worker failed.
struct Recovery {
  std::string cause;      ///< "out of memory", "memory is free again", "device lost", "killed"
  std::string phase;      ///< the phase of the step, "backward"; empty: unknown
  std::int64_t step = 0;  ///< 1-based; 0: outside any step
  std::int64_t tried = 0, taken = 0;  ///< bytes: requested by the failed allocation, and allocated
                                      ///< then; 0: unknown
  std::int64_t limit = 0;             ///< bytes that may be allocated; 0: no limit was reached
  std::string from, to;  ///< how the step was computed, or the devices; equal if simply retried
  bool operator==(const Recovery&) const = default;
};

/// An error during a run that the user can fix.
///
///   throw StageError(ErrorCode::kMissingFolder, "no folder '" + root +
///   "'").at("/root").with_help("create it");
///
/// Without at(), the error is reported against the stage itself; without in_stage(), against the
/// stage that is running.
struct StageError : std::runtime_error {
  StageError(ErrorCode code, const std::string& message)
      : std::runtime_error(message), code(code) {}

  /// Reports the error against the option at this pointer within the stage, such as "/root".
  StageError at(std::string pointer) && {
    option = std::move(pointer);
    return std::move(*this);
  }
  /// Adds one line of advice.
  StageError with_help(std::string advice) && {
    help = std::move(advice);
    return std::move(*this);
  }
  /// Specifies the devices to try next ("gpu" for another GPU, or "cpu") after the incident `what`
  /// and `times` retries. The node has saved its state, so it can continue there.
  StageError elsewhere(std::vector<std::string> devices, Recovery what, std::int64_t times = 0) && {
    other_devices = std::move(devices);
    incident = std::move(what);
    retries = times;
    return std::move(*this);
  }
  /// Reports the error against the stage at this pointer, such as "/model".
  StageError in_stage(std::string pointer) && {
    stage = std::move(pointer);
    return std::move(*this);
  }

  ErrorCode code;
  std::string option;
  std::string help;
  std::string stage;
  std::vector<std::string> other_devices;
  Recovery incident;  ///< its `from` and `to` are empty
  std::int64_t retries = 0;
};

/// Several failures found together; the StageError base is the first of them.
struct StageErrors : StageError {
  explicit StageErrors(std::vector<StageError> found)
      : StageError(found.front()), all(std::move(found)) {}
  std::vector<StageError> all;
};

/// Runs several checks, each of which may throw a StageError, and throws all errors at once:
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

  /// Ignores an error that has already been found.
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
