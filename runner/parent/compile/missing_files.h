#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Checks the files and folders named by options, according to x-file in their schemas. Returns an
/// error at each option with a path that is missing, of the wrong kind or not readable. Does not
/// open files, so contents are not checked.
Diagnostics missing_files(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
