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

/// How many items `foreach` has, which may be null; a number above `limit` stands for any such.
std::size_t item_count(const Value* foreach, std::size_t limit);

/// Every item of `foreach`: the product of its lists, the last key fastest; one empty item where it
/// is null.
std::vector<ForeachItem> items(const Value* foreach);

/// The node's name: "train", or "train.0-1" with the values of the item joined; what a file name
/// may not hold is '_'.
std::string node_id(const StageSpec& stage, const ForeachItem& item);

/// "train", or "train[rate=0.001]": as a person reads it.
std::string node_title(const StageSpec& stage, const ForeachItem& item);

/// True if the keys that both items have agree, so that their nodes may be wired.
bool agree(const ForeachItem& a, const ForeachItem& b);

/// `options` with every ${item.key} and ${item.key[i]} filled in: a whole value keeps its type,
/// within a text it becomes text. Unknown keys are errors at their place; `pointer` is where
/// `options` stand.
Result<Value> fill_in(Value options, const ForeachItem& item, const std::string& pointer);

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
///   3. the only output of the type, if the port must be fed. An optional port is not fed by
///   another name.
/// A `many` port takes all that rule 2 or 3 finds. A stage never feeds itself unless `inputs` says
/// so, and between two stages with foreach nodes are wired where all shared keys agree. What does
/// not work out is added to `errors`.
std::vector<Wire> wire(const std::vector<Draft>& drafts, std::size_t consumer, Diagnostics& errors);

}  // namespace runner
