#pragma once

#include <optional>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Wires ports by type and name, expands foreach, sorts. Returns all errors at once, in source
/// order, each at its line: unwired, doubly wired and ill-typed ports, cycles and unknown items;
/// for an otherwise valid graph, also the rules that it breaks.
Result<Graph> compile(const Recipe& recipe, const SchemaSet& schemas);

/// The same without checking the rules: for graphs that an earlier version, which may have had
/// fewer rules, has already run.
Result<Graph> compile_recorded(const Recipe& recipe, const SchemaSet& schemas);

/// Violations of rules between options: the x-rules of schemas (broken_rules()), and memory options
/// that would change a training's gradient (legality.h).
Diagnostics rules_broken_by(const Graph& graph, const SchemaSet& schemas);

/// The options of `node` that identify its result: without secrets and, for a data stage or a
/// memory policy, without those that change no result (x-resume: safe), such as the loader's
/// threads and the budget. nullopt if that is all of them.
std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas);

/// The x-rules of the schemas that the options of the nodes break, each reported at its option. A
/// rule names options of the mapping whose schema contains it, and others as described at
/// OptionMapping (option_walk.h).
Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
