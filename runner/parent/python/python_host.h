#pragma once

#include <filesystem>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What makes a worker of a Python interpreter: a script that loads torch, then the worker as a
/// library.
struct PythonHost {
  std::filesystem::path script;
  std::filesystem::path library;
};

/// The host installed with the program at `own_executable`: the script in
/// ../share/retort/python_host, the library next to the program, in ../lib or in ../lib/retort.
/// Fails with a kWorkerMissing for each that is absent.
Result<PythonHost> find_python_host(const std::filesystem::path& own_executable);

}  // namespace runner
