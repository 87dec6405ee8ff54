#pragma once

#include <filesystem>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The files that a Python interpreter needs to run as a worker: a script that loads torch, then
/// the worker as a library.
struct PythonHost {
  std::filesystem::path script;
  std::filesystem::path library;
};

/// Finds the host installed with the program at `own_executable`: the script in
/// ../share/retort/python_host; the library next to the program, in ../lib or in ../lib/retort.
/// Returns a kWorkerMissing error for each missing file.
Result<PythonHost> find_python_host(const std::filesystem::path& own_executable);

}  // namespace runner
