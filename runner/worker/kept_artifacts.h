#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/stage/memory_plan.h"
#include "runner/shared/stage/stage.h"

namespace runner {

/// True for data that `node` does not receive because the node is already trained.
bool is_left_out(const Edge& edge, const Node& node, const CheckpointSources& done);

/// The outputs of a graph's nodes that still have consumers. An artifact is released once its last
/// consumer has taken it.
class KeptArtifacts {
 public:
  /// `runs` says, for each node, whether it runs and thus consumes its inputs. `graph` and `done`
  /// are borrowed.
  KeptArtifacts(const Graph& graph, const CheckpointSources& done, const std::vector<bool>& runs);

  /// Returns the outputs of node `index` that are actually used. Excludes outputs consumed only by
  /// nodes that pass data through and have no consumers themselves.
  std::set<std::string> wanted(std::size_t index) const;
  /// Returns the artifacts on the edges into `node`. Releases those for which `node` is the last
  /// consumer. Throws StageError if a required artifact was not output.
  Inputs take(const Node& node);
  /// Returns the memory on `device` of the artifacts kept for nodes other than the one that took
  /// `inputs`, each counted once.
  std::vector<NamedBytes> held_elsewhere(const Inputs& inputs, std::string_view device) const;
  /// Keeps the wanted outputs of node `index`. An output may be missing, such as the test part of
  /// data without a test part.
  void put(std::size_t index, const Outputs& outputs);

 private:
  StageError missing(const Edge& edge) const;
  bool is_wanted(std::size_t index, const std::string& output) const;

  struct Port {
    ArtifactPtr artifact;
    int waiting = 0;
  };
  const Graph& graph_;
  const CheckpointSources& done_;
  const std::vector<bool> runs_;
  std::vector<std::map<std::string, Port, std::less<>>> ports_;  // by node
};

}  // namespace runner
