#pragma once

#include "runner/parent/run/run.h"

namespace runner {

/// run() for a rank other than the first that a launcher has started (RunRequest::launched): has a
/// worker compute its share. The rank 0 shows the progress and writes the record; this one writes
/// its log to ranks/K/log.txt of the run's folder. Signals are left to rank 0, which saves; when it
/// ends, so does this rank, after a signal with kStoppedAfterSave. A second SIGINT, or the end of
/// WorkerCommand::grace, kills the worker.
ExitCode run_other_rank(const RunRequest& request, const RunSurroundings& surroundings);

}  // namespace runner
