#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/graph/graph.h"

namespace runner {

/// For each node a SHA-256, in hexadecimal, of all that its result follows from: kind, options, seed and the keys of
/// what it takes in. Two nodes of the same key have the same result, as far as data and program are the same.
std::vector<std::string> node_keys(const Graph& graph);

/// The options of `node` by which its result is known again: without secrets, and of a data stage or a memory policy
/// without those that change no result (x-resume: safe), such as the loader's threads and the budget. nullopt where
/// that are all of them.
std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas);

}  // namespace runner
