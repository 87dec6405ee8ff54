#pragma once

#include "runner/parent/schema/schema_node.h"

namespace runner {

/// `value`, which is valid by `schema`, with every default filled in: missing keys come after those written, in the
/// order of the schema, at the Location of their mapping; of alternatives only the one that fits gives defaults.
/// Where an integer is asked for, 1.0 becomes 1. `items` as for check().
void fill_in_defaults(Value& value, const SchemaNode& schema, bool items = false);

}  // namespace runner
