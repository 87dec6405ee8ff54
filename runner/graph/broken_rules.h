#pragma once

#include "runner/graph/graph.h"
#include "runner/error/result.h"
#include "runner/schema/schema.h"

namespace runner {

/// Which x-rules of the schemas the options of the nodes break, each at its option. A rule names the options of the
/// mapping whose schema it stands in; "parent." leads to the mapping around that. "inputs.PORT" is "wired" where
/// something is wired to the stage's port, else null, and "inputs.PORT.OPTION" is an option of the stage that is.
Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
