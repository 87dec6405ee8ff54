#include "runner/shared/error/stop.h"

#include <csignal>

namespace runner {

ExitCode exit_code_of_stop(int signal, bool has_saved) {
  if (has_saved) return ExitCode::kStoppedAfterSave;
  return signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kTerminated;
}

Diagnostic stopped_by(int signal, const std::string& doing) {
  const bool is_interrupt = signal == SIGINT;
  const std::string what = is_interrupt ? "interrupted" : "stopped by a signal";
  return {is_interrupt ? ErrorCode::kInterrupted : ErrorCode::kTerminated,
          {},
          "",
          doing.empty() ? what : what + " " + doing,
          ""};
}

bool says_stopped(ExitCode code) {
  return code == ExitCode::kStoppedAfterSave || code == ExitCode::kInterrupted || code == ExitCode::kTerminated;
}

}  // namespace runner
