#pragma once

#include <optional>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Compiles a recipe to a graph: expands foreach, wires ports by type and name, and sorts the
/// nodes. Returns all errors at once, in source order, each with its line: unwired, ambiguous and
/// ill-typed ports, cycles, and ${item.KEY} without such a key in foreach. For an otherwise valid
/// graph, also returns the rules that it breaks.
/// The result is the part that run.only names.
Result<Graph> compile(const Recipe& recipe, const SchemaSet& schemas);

/// Like compile(), but does not check the rules: for recorded recipes that an earlier version,
/// which may have had fewer rules, has already run.
/// Returns the whole graph.
Result<Graph> compile_recorded(const Recipe& recipe, const SchemaSet& schemas);

/// Returns the part of the recipe's `graph` that run.only names: the whole graph if it is null.
Result<Graph> part_to_run(Graph graph, const Recipe& recipe);

/// Returns violations of rules between options: the x-rules of schemas (broken_rules()), and memory
/// options that would change the gradient of a training stage (legality.h).
Diagnostics rules_broken_by(const Graph& graph, const SchemaSet& schemas);

/// Returns the options of `node` that identify its result: without secrets and, for a data stage or
/// a memory policy, without options that do not change the result (x-resume: safe), such as the
/// loader's threads and the budget. Nullopt if no option is left out.
std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas);

/// Returns an error for each x-rule that the options of the nodes break, at the option that the
/// rule names. A rule refers to options of the mapping that its schema describes, and to others as
/// explained at OptionMapping (option_walk.h).
Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
