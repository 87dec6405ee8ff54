#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

class Reuse;
struct ExecutorWorld;
struct RunOptions;

/// Returns, for each node, whether it must run. A node need not run if it is finished or reused and
/// no node that runs needs its outputs. `keys` are the keys of the nodes (node_keys()); `reuse` is
/// null if nothing is reused.
std::vector<bool> nodes_to_run(const Graph& graph, std::span<const std::string> keys,
                               const RunOptions& options, Reuse* reuse, const ExecutorWorld& world);

/// Returns the nodes that this rank runs. All ranks run the training nodes that rank 0 runs, since
/// only rank 0 knows what the evaluations need. The other ranks also run the nodes that produce the
/// inputs of these nodes. Changes `order`, in which the nodes run, to that of rank 0, so that all
/// ranks reach the nodes that they run together in the same order.
std::vector<bool> as_first_decides(std::vector<bool> runs, const Graph& graph,
                                   std::vector<std::size_t>& order, const RunOptions& options,
                                   const ExecutorWorld& world);

/// Returns the nodes that all ranks run, if rank 0 runs those in `runs`.
std::vector<bool> run_by_all(const std::vector<bool>& runs, const Graph& graph);

}  // namespace runner
