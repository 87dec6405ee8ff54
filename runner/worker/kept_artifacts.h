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

/// True for data that `node` is not given because its training is already done.
bool is_left_out(const Edge& edge, const Node& node, const CheckpointSources& done);

/// The outputs of a graph's nodes that still have consumers. An artifact is released with its last
/// consumer.
class KeptArtifacts {
 public:
  /// `runs`: by node, whether it runs and so consumes its inputs. `graph` and `done` are borrowed.
  KeptArtifacts(const Graph& graph, const CheckpointSources& done, const std::vector<bool>& runs);

  /// The outputs of node `index` that are really used. Excludes an output that is only waited for
  /// by a node which passes data through and whose own output has no consumer.
  std::set<std::string> wanted(std::size_t index) const;
  /// The artifacts on the edges of `node`; no longer held here if it was their last consumer.
  /// Throws StageError if a required one was not output.
  Inputs take(const Node& node);
  /// The artifacts kept here on `device` for nodes other than the one that has taken `inputs`, each
  /// once.
  std::vector<NamedBytes> held_elsewhere(const Inputs& inputs, std::string_view device) const;
  /// Keeps the wanted outputs of node `index`. An output may be absent, such as the test part of
  /// data without one.
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
