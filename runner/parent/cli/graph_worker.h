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

/// The folder of the file that a resolved recipe was written in, from which its Python code may
/// import: for that of a run's record or of a trial, the folder of the recipe from which it was
/// made. Empty: not known.
std::filesystem::path recipe_folder(const Value& recipe);

/// What starting Python needs of this machine and user.
struct PythonSurroundings {
  std::filesystem::path trusted = TrustedCode::standard_file();
  std::filesystem::path executable = own_executable();
  Variable variable = process_variables();
};

/// The worker for `graph`: the program next to this one or, if the graph has Python code, the
/// interpreter that `recipe`, resolved, asks for. Then the graph gets the code that it may run
/// (allow_code()). Nothing has started when it fails: kUntrustedCode, kNoPython, kWorkerMissing.
Result<WorkerCommand> worker_for(Graph& graph, const Value& recipe, const SchemaSet& schemas,
                                 const LogFlags& log, const PythonSurroundings& here = {});

/// What a run may not start of the commands that its recipe names (trusted_hooks.h).
Diagnostics refused_hooks(const Value& recipe, const Composition& composition,
                          const PythonSurroundings& here = {});

/// What worker_for() would refuse to trust of a resolved recipe that is valid.
Diagnostics untrusted_code(const Value& recipe, const SchemaSet& schemas, Sources& sources,
                           const PythonSurroundings& here = {});

}  // namespace runner
