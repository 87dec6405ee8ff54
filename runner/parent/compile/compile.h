#pragma once

#include <optional>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Compiles a recipe into a graph: expands foreach, wires ports by type and name, and sorts the
/// nodes. Returns all errors at once, in source order, each with its line: unwired, ambiguous and
/// mistyped ports, cycles, and ${item.KEY} for a key that foreach lacks. If the graph is otherwise
/// valid, also returns the rules that it breaks. The result is the part selected by run.only.
Result<Graph> compile(const Recipe& recipe, const SchemaSet& schemas);

/// Like compile(), but does not check the rules and returns the whole graph. For recorded recipes,
/// which may have been run by an earlier version with fewer rules.
Result<Graph> compile_recorded(const Recipe& recipe, const SchemaSet& schemas);

/// Returns the part of the recipe's `graph` selected by run.only; the whole graph if it is null.
Result<Graph> part_to_run(Graph graph, const Recipe& recipe);

/// Returns violations of rules between options: the x-rules of schemas (broken_rules()), and memory
/// options that would change the gradient of a training stage (legality.h).
Diagnostics rules_broken_by(const Graph& graph, const SchemaSet& schemas);

/// Returns the options of `node` that identify its result. Leaves out secrets and, for a data stage
/// or a memory policy, options that do not change the result (x-resume: safe), such as the loader's
/// threads and the budget. nullopt if no option is left out.
std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas);

/// Returns an error for each x-rule broken by the options of the nodes, at the option named by the
/// rule. Rules can use options of the mapping that their schema describes, or other options as
/// explained in OptionMapping (option_walk.h).
Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
