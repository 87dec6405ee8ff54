#include "stages/worker_library.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <torch/version.h>

#include "runner/shared/error/exit_code.h"
#include "stages/python/python_host.h"
#include "stages/run_worker.h"

const char* retort_worker_torch() { return TORCH_VERSION; }

int retort_worker_serve(int events, stages::PythonCall call) {
  if (fcntl(events, F_SETFD, FD_CLOEXEC) != 0) return static_cast<int>(runner::ExitCode::kUsage);
  if (call) {
    // Faults and process lists use this name, no matter which program loaded the library.
    static char name[] = "retort-worker";
    program_invocation_short_name = name;
    prctl(PR_SET_NAME, name);
  }
  stages::set_python(call);
  const int exit = stages::run_worker(events);
  stages::set_python(nullptr);
  return exit;
}

void retort_worker_reply(const char* reply) { stages::reply_to_python_call(reply); }
