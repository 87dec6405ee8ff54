#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/graph/graph.h"

namespace runner {

/// The progress of a node of a run, determined from the files in its folder.
struct NodeState {
  enum class Progress {
    kDone,     ///< it has finished, and all its files exist
    kPartial,  ///< it has saved a checkpoint and continues from there
    kMissing,  ///< it has to start from the beginning
  };
  Progress progress = Progress::kMissing;
  std::string missing = {};                     ///< why a finished node does not count as done
  std::optional<std::int64_t> epoch = {};       ///< for a training node: epochs done in the latest
                                                ///< checkpoint
  std::optional<std::int64_t> best_epoch = {};  ///< epochs done in the best checkpoint
  std::optional<double> best = {};              ///< the monitored metric at that checkpoint
};

/// Returns "done", "partial" or "missing".
std::string_view name(NodeState::Progress progress);

/// Reads the state of `node` from the run folder `run`. Damaged files count as missing.
NodeState node_state(const std::filesystem::path& run, const std::string& node);

/// Returns the nodes of `graph` that depend on the node `id`, directly or indirectly, in the
/// graph's order.
std::vector<std::string> nodes_after(const Graph& graph, const std::string& id);

/// Removes the files of the node `id` of a run and marks the nodes that depend on it as unfinished,
/// so that all of them are computed again when the run is resumed. The dependent nodes keep their
/// other files. The caller must hold the run's lock. Throws WriteError.
void reset_node(const std::filesystem::path& run, const Graph& graph, const std::string& id);

}  // namespace runner
