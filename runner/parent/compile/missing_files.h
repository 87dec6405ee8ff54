#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The files and folders named by options that are missing, of the wrong kind or not readable, each
/// reported at its option: the checks of a schema's x-file. Opens no file, so their contents are
/// not checked.
Diagnostics missing_files(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
