#pragma once

#include "runner/shared/graph/graph.h"
#include "runner/shared/error/result.h"
#include "runner/parent/schema/schema.h"

namespace runner {

/// Which x-rules of the schemas the options of the nodes break, each at its option. A rule names the options of the
/// mapping whose schema it stands in, and others as OptionMapping (option_walk.h) says.
Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
