#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Checks the files and folders that options name, according to the x-file of their schemas.
/// Returns an error at each option with a path that is missing, of the wrong kind or not readable.
/// Opens no file, so contents are not checked.
Diagnostics missing_files(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
