#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

/// How far a node of a run has come, by the files in its folder.
struct NodeState {
  enum class Progress {
    kDone,     ///< it has run to its end, and all that it left is there
    kPartial,  ///< it has saved something, and continues from there
    kMissing,  ///< it begins anew
  };
  Progress progress = Progress::kMissing;
  std::string missing = {};                ///< what keeps a node that has finished from being done
  std::optional<std::int64_t> epoch = {};  ///< of a training: epochs done in its latest checkpoint
  std::optional<std::int64_t> best_epoch = {};  ///< … in its best one
  std::optional<double> best = {};              ///< the monitored number there
};

/// "done", "partial" or "missing".
std::string_view name(NodeState::Progress progress);

/// Reads the folder of `node` in the folder of a run. Damaged files are as if they were not there.
NodeState node_state(const std::filesystem::path& run, const std::string& node);

/// The nodes of `graph` that take in what the node `id` puts out, directly or not, in the graph's
/// order.
std::vector<std::string> nodes_after(const Graph& graph, const std::string& id);

/// Removes what the node `id` of a run has left, and makes those that depend on it unfinished, so
/// that a resumed run does it and them again; what they have left themselves stays. Whoever calls
/// holds the run's lock. Throws WriteError.
void reset_node(const std::filesystem::path& run, const Graph& graph, const std::string& id);

}  // namespace runner
