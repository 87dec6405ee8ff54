#include "stages/worker_library.h"

#include <fcntl.h>
#include <torch/version.h>

#include "runner/shared/error/exit_code.h"
#include "stages/python/python_host.h"
#include "stages/run_worker.h"

const char* retort_worker_torch() { return TORCH_VERSION; }

int retort_worker_serve(int events, stages::PythonCall call) {
  if (fcntl(events, F_SETFD, FD_CLOEXEC) != 0) return static_cast<int>(runner::ExitCode::kUsage);
  stages::set_python(call);
  const int exit = stages::run_worker(events);
  stages::set_python(nullptr);
  return exit;
}

void retort_worker_reply(const char* reply) { stages::reply_to_python_call(reply); }
