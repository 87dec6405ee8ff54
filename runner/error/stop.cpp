#include "runner/error/stop.h"

#include <csignal>

namespace runner {

ExitCode exit_code_of_stop(int signal, bool has_saved) {
  if (has_saved) return ExitCode::kStoppedAfterSave;
  return signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kTerminated;
}

bool says_stopped(ExitCode code) {
  return code == ExitCode::kStoppedAfterSave || code == ExitCode::kInterrupted || code == ExitCode::kTerminated;
}

}  // namespace runner
