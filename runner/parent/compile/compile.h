#pragma once

#include <optional>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Wires ports by type and name, expands foreach, sorts. Unwired, doubly wired and ill-typed ports,
/// cycles and unknown items are errors at their line; all at once, in source order. So are, in a
/// graph that is sound, the rules that it breaks.
Result<Graph> compile(const Recipe& recipe, const SchemaSet& schemas);

/// The same, whatever rules it breaks: for what an earlier version, which may have had fewer rules,
/// has run already.
Result<Graph> compile_recorded(const Recipe& recipe, const SchemaSet& schemas);

/// What options must keep together and do not: the x-rules of schemas (broken_rules.h), and memory
/// options that would change a training's gradient (legality.h).
Diagnostics rules_broken_by(const Graph& graph, const SchemaSet& schemas);

/// The options of `node` by which its result is known again: without secrets, and of a data stage
/// or a memory policy without those that change no result (x-resume: safe), such as the loader's
/// threads and the budget. nullopt where that are all of them.
std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas);

/// Which x-rules of the schemas the options of the nodes break, each at its option. A rule names
/// the options of the mapping whose schema it stands in, and others as OptionMapping
/// (option_walk.h) says.
Diagnostics broken_rules(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
