#pragma once

#include <filesystem>

#include "runner/parent/cli/command.h"
#include "runner/parent/config/compose.h"
#include "runner/parent/python/interpreter.h"
#include "runner/parent/python/trusted_code.h"
#include "runner/parent/run/worker_process.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns the folder from which the Python code of a resolved recipe may import: the folder of the
/// recipe's file or, for a recipe in a run's record or of a trial, the folder of the recipe from
/// which it was created. Empty if unknown.
std::filesystem::path recipe_folder(const Value& recipe);

/// What is needed from this machine and the user's environment to start Python.
struct PythonSurroundings {
  std::filesystem::path trusted = TrustedCode::standard_file();
  std::filesystem::path executable = own_executable();
  Variable variable = process_variables();
};

/// Returns the command for the worker that runs `graph`: the worker next to this program or, if the
/// graph has Python code, the interpreter that the resolved `recipe` selects. Also sets the Python
/// code that the graph may run (allow_code()). Starts no process. Fails with kUntrustedCode,
/// kNoPython or kWorkerMissing.
Result<WorkerCommand> worker_for(Graph& graph, const Value& recipe, const SchemaSet& schemas,
                                 const LogFlags& log, const PythonSurroundings& here = {});

/// Returns errors for the commands in the recipe's `hooks` that are not trusted (trusted_hooks.h).
Diagnostics refused_hooks(const Value& recipe, const Composition& composition,
                          const PythonSurroundings& here = {});

/// Returns the errors of worker_for() for untrusted code in `recipe`, which is resolved and valid.
Diagnostics untrusted_code(const Value& recipe, const SchemaSet& schemas, Sources& sources,
                           const PythonSurroundings& here = {});

}  // namespace runner
