#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The files and folders that options name and that are not there, are of another kind or may not
/// be read, each at its option: what a schema's x-file asks for. Nothing is opened, so what is in a
/// file is not known here.
Diagnostics missing_files(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
