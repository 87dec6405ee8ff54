#pragma once

#include <deque>
#include <string>
#include <vector>

#include "runner/parent/schema/schema_node.h"

namespace runner {

/// A schema that refers back to itself for the same value, so validation would never end.
struct SchemaCircle {
  const SchemaNode* at;
  std::string problem;  ///< "$ref refers to itself"
};

/// Returns the cycles among `nodes` once their references and kinds are resolved. Values are
/// finite, so a cycle can consist only of references that stay at the same value, or of defaults
/// that are mappings or lists and would be filled in inside one another.
std::vector<SchemaCircle> circles_in(const std::deque<SchemaNode>& nodes);

}  // namespace runner
