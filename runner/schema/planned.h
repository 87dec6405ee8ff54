#pragma once

#include "runner/error/diagnostic.h"
#include "runner/schema/schema_node.h"

namespace runner {

/// What `value`, valid by `schema` and with its defaults filled in, asks for that is marked x-planned: kinds, options
/// and values that validate and have no code yet. In the order of the value.
Diagnostics planned_uses(const Value& value, const SchemaNode& schema);

/// Is the node, or what it refers to, marked x-planned?
bool is_planned(const SchemaNode& node);

}  // namespace runner
