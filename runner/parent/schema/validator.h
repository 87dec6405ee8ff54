#pragma once

#include "runner/shared/error/diagnostic.h"
#include "runner/parent/schema/schema_node.h"

namespace runner {

/// Everything wrong with `value` by `schema`, in the order of the text. Reads only; defaults are not filled in.
/// Inside a stage with `foreach`, a text with ${item.…} passes everywhere: it is checked again once it is filled in.
/// `items` says so of `value` itself.
Diagnostics check(const Value& value, const SchemaNode& schema, bool items = false);

/// Is that text to be filled in by foreach?
bool names_item(const Value& value);

/// The mapping is a stage with `foreach`.
bool has_items(const SchemaNode& schema, const Value& mapping);

}  // namespace runner
