#pragma once

#include <string>
#include <vector>

#include "runner/parent/compile/foreach.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/schema/schema.h"

namespace runner {

/// A node before its inputs are known.
struct Draft {
  const StageSpec* stage;
  const Kind* kind;
  ForeachItem item;
  std::string id;
};

/// One output of one draft.
struct Source {
  std::size_t draft;
  const Port* port;
};

/// What feeds one input port: one source, or for a `many` port any number.
struct Wire {
  const Port* port;
  std::vector<Source> sources;
};

/// Finds what feeds each input port of drafts[consumer], by these rules, first match wins:
///   1. `inputs: {port: stage.port}` says it;
///   2. an output of the same type and name;
///   3. the only output of the type, if the port must be fed. An optional port is not fed by another name.
/// A `many` port takes all that rule 2 or 3 finds. A stage never feeds itself unless `inputs` says so, and between two
/// stages with foreach nodes are wired where all shared keys agree. What does not work out is added to `errors`.
std::vector<Wire> wire(const std::vector<Draft>& drafts, std::size_t consumer, Diagnostics& errors);

}  // namespace runner
