#include "runner/parent/cli/commands/runs_rerun.h"

namespace runner {

ExitCode rerun_run(const RerunFlags& flags, Console& console) {
  auto run = read_run(flags.run);
  if (!run) return report(console, run.errors());
  return Rerun(flags, *std::move(run))(console);
}

}  // namespace runner
