#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

/// How far a node of a run is, judged by the files in its folder.
struct NodeState {
  enum class Progress {
    kDone,     ///< it has finished, and all its files are there
    kPartial,  ///< it has saved something, and continues from there
    kMissing,  ///< it starts from the beginning
  };
  Progress progress = Progress::kMissing;
  std::string missing = {};                ///< why a node that has finished is not done
  std::optional<std::int64_t> epoch = {};  ///< of a training: epochs done in its latest checkpoint
  std::optional<std::int64_t> best_epoch = {};  ///< … in its best one
  std::optional<double> best = {};              ///< the monitored number there
};

/// "done", "partial" or "missing".
std::string_view name(NodeState::Progress progress);

/// Reads the folder of `node` in the folder of a run. Damaged files count as missing.
NodeState node_state(const std::filesystem::path& run, const std::string& node);

/// The nodes of `graph` that depend on the node `id`, directly or not, in the graph's order.
std::vector<std::string> nodes_after(const Graph& graph, const std::string& id);

/// Removes the files of the node `id` of a run, and marks the nodes that depend on it as
/// unfinished, so that a resumed run computes it and them again; the files of those nodes stay. The
/// caller holds the run's lock. Throws WriteError.
void reset_node(const std::filesystem::path& run, const Graph& graph, const std::string& id);

}  // namespace runner
