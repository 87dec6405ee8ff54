#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// One combination of a stage's foreach values, in the order of the keys: {("pair", [0, 1])}.
using ForeachItem = std::vector<std::pair<std::string, Value>>;

/// Returns the number of items in `foreach`, which may be null. If there are more than `limit`,
/// returns some number above `limit`.
std::size_t item_count(const Value* foreach, std::size_t limit);

/// Returns all items of `foreach`: the product of its lists, with the last key varying fastest. If
/// `foreach` is null, returns one empty item.
std::vector<ForeachItem> items(const Value* foreach);

/// Returns the id of a node: "train", or "train.0-1" with the item's values joined. Characters not
/// allowed in file names become '_'.
std::string node_id(const StageSpec& stage, const ForeachItem& item);

/// Returns the title of a node for display: "train", or "train[rate=0.001]".
std::string node_title(const StageSpec& stage, const ForeachItem& item);

/// True if the items agree on the keys they share, so their nodes may be wired.
bool agree(const ForeachItem& a, const ForeachItem& b);

/// Returns `options` with every ${item.key} and ${item.key[i]} filled in. A reference that is the
/// whole value keeps its type; inside a longer string it becomes a string. Unknown keys are errors
/// at their location. `pointer` is the location of `options`.
Result<Value> fill_in(Value options, const ForeachItem& item, const std::string& pointer);

/// A node before its inputs are known.
struct Draft {
  const StageSpec* stage;
  const Kind* kind;
  ForeachItem item;
  std::string id;
  bool is_of_fold = false;  ///< evaluates the fold rather than the test part
};

/// One output of one draft.
struct Source {
  std::size_t draft;
  const Port* port;
};

/// The sources of one input port: one, or any number for a `many` port.
struct Wire {
  const Port* port;
  std::vector<Source> sources;
};

/// Finds the source of each input port of drafts[consumer] by these rules; the first match wins:
///   1. `inputs: {port: stage.port}` names it;
/// 2. an output with the same type and name; 3. the only output of the type, if the port is
/// required. An optional port is not wired to an output with another name. A `many` port gets
/// everything that rule 2 or 3 finds. A stage is never wired to itself unless `inputs` says so.
/// Nodes of two stages with foreach are wired to each other if all shared keys agree. Failures are
/// added to `errors`.
std::vector<Wire> wire(const std::vector<Draft>& drafts, std::size_t consumer, Diagnostics& errors);

}  // namespace runner
