#pragma once

#include <string>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// The runs that a command line names: by their folders, or by folders that hold runs.
struct RunSelection {
  std::vector<std::string> folders;
  bool all = false;  ///< of a folder of runs also those that have not finished
};

/// The positional `runs`, which must be given, and --all.
void add_runs(Invocation& verb, RunSelection& selection, const std::string& summary);

/// Reads them in the order named, those of a folder unless they have been named already; how many were left out is said
/// on console.err.
Result<std::vector<RecordedRun>> selected_runs(const RunSelection& selection, Console& console);

}  // namespace runner
