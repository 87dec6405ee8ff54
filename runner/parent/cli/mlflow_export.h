#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/parent/cli/console.h"
#include "runner/parent/config/compose.h"
#include "runner/shared/error/exit_code.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Implements `retort export FOLDER --mlflow ADDRESS`: sends a run, or a sweep and all its runs, to
/// an MLflow server. Skips anything that the server already has.
ExitCode export_to_mlflow(const std::filesystem::path& folder, const std::string& address,
                          Console& console);

/// Returns the errors of mlflow_target() if one of the resolved `recipes` sets run.mlflow.
Diagnostics refused_tracking(const std::vector<const Value*>& recipes);

/// Reports the end of a sweep to the server that has its trials, if any. Warns if the server does
/// not accept it.
void track_end_of_sweep(const std::filesystem::path& folder, ExitCode code, Console& console);

}  // namespace runner
