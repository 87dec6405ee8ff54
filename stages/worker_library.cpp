// The worker as a library, which Python loads where a recipe names Python code
// (stages/python/retort_host).

#include <fcntl.h>
#include <torch/version.h>

#include "runner/shared/error/exit_code.h"
#include "stages/python/python_host.h"
#include "stages/run_worker.h"

extern "C" {

/// The version of LibTorch that this library was built with, and needs: "2.11.0".
const char* retort_worker_torch() { return TORCH_VERSION; }

/// What the worker's program does, in a process that Python has started; `call` does the worker's
/// requests to Python. Returns the exit code, with which the process must end at once.
int retort_worker_serve(int events, stages::PythonCall call) {
  if (fcntl(events, F_SETFD, FD_CLOEXEC) != 0) return static_cast<int>(runner::ExitCode::kUsage);
  stages::set_python(call);
  const int exit = stages::run_worker(events);
  stages::set_python(nullptr);
  return exit;
}

/// The reply to a call, before it returns.
void retort_worker_reply(const char* reply) { stages::reply_to_python_call(reply); }

}  // extern "C"
