#pragma once

#include <cstddef>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

/// Returns the order in which a run executes the nodes, as indices into graph.nodes. The order
/// keeps memory use as low as the graph allows. It is depth-first: the network of one foreach item
/// is evaluated and freed before the next one is trained, and no node runs before its output is
/// needed. Ties are broken by the order of graph.nodes. The order depends only on the graph and
/// does not affect results, because each node's seed is derived from its id.
std::vector<std::size_t> run_order(const Graph& graph);

}  // namespace runner
