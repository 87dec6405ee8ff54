#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runner/shared/error/error_code.h"
#include "runner/shared/error/recovery.h"

namespace runner {

/// A failure while running that the user can do something about.
///
///   throw StageError(ErrorCode::kMissingFolder, "no folder '" + root + "'").at("/root").with_help("create it");
///
/// Without at() it blames the stage itself, without in_stage() the stage that is running.
struct StageError : std::runtime_error {
  StageError(ErrorCode code, const std::string& message) : std::runtime_error(message), code(code) {}

  /// Blames the option with this pointer below the stage, e.g. "/root".
  StageError at(std::string pointer) && {
    option = std::move(pointer);
    return std::move(*this);
  }
  /// Says what to do instead, in one line.
  StageError with_help(std::string advice) && {
    help = std::move(advice);
    return std::move(*this);
  }
  /// Says on which devices the same may be tried, "gpu" for another one or "cpu", after `what` and so many retries; it
  /// is saved for that.
  StageError elsewhere(std::vector<std::string> devices, Recovery what, std::int64_t times = 0) && {
    other_devices = std::move(devices);
    incident = std::move(what);
    retries = times;
    return std::move(*this);
  }
  /// Blames the stage with this pointer, e.g. "/model".
  StageError in_stage(std::string pointer) && {
    stage = std::move(pointer);
    return std::move(*this);
  }

  ErrorCode code;
  std::string option;
  std::string help;
  std::string stage;
  std::vector<std::string> other_devices;
  Recovery incident;  ///< without from and to
  std::int64_t retries = 0;
};

}  // namespace runner
