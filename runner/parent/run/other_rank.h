#pragma once

#include "runner/parent/run/run.h"

namespace runner {

/// Like run(), for a rank other than 0 that was started by a launcher (RunRequest::launched): a
/// worker computes the rank's share. Rank 0 shows the progress and writes the record; this rank
/// writes its log to ranks/K/log.txt in the run's folder. This rank leaves signals to rank 0, which
/// does the saving, and exits when rank 0 exits; after a signal, it returns kStoppedAfterSave. The
/// worker is killed on a second SIGINT or after WorkerCommand::grace.
ExitCode run_other_rank(const RunRequest& request, const RunSurroundings& surroundings);

}  // namespace runner
