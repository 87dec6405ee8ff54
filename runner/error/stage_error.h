#pragma once

#include <stdexcept>
#include <string>

#include "runner/error/error_code.h"

namespace runner {

/// A failure while running that the user can do something about.
struct StageError : std::runtime_error {
  /// `option` is the pointer of the option to blame below the stage, e.g. "/root"; empty: the stage itself.
  /// `stage` is the pointer of the stage to blame, "/model"; empty: the one that is running.
  StageError(ErrorCode code, std::string option, const std::string& message, std::string help = "",
             std::string stage = "")
      : std::runtime_error(message),
        code(code),
        option(std::move(option)),
        help(std::move(help)),
        stage(std::move(stage)) {}
  ErrorCode code;
  std::string option;
  std::string help;
  std::string stage;
};

}  // namespace runner
