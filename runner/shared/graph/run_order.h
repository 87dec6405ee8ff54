#pragma once

#include <cstddef>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

/// The order in which a run goes through the nodes, as indices into graph.nodes. It leaves as
/// little in memory as the graph allows: depth first, so that the network of one item of a foreach
/// is evaluated and freed before the next is trained, and nothing is made before somebody needs it.
/// What that leaves open is as in graph.nodes. It is a function of the graph alone, and no result
/// depends on it: a node's seed follows from its id.
std::vector<std::size_t> run_order(const Graph& graph);

}  // namespace runner
