#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {

/// Calls `visit` for each such mapping in `value`, which is valid by `schema` and has its defaults filled in.
void visit_configured(Value& value, const SchemaNode& schema, const VisitConfigured& visit);

}  // namespace runner
