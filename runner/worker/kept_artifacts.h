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

/// True of data that `node` is not given, as its training is done already.
bool is_left_out(const Edge& edge, const Node& node, const CheckpointSources& done);

/// What the nodes of a graph have put out and somebody still waits for. An artifact is let go with
/// its last taker.
class KeptArtifacts {
 public:
  /// `runs`: by node, whether it is run and so takes what it is wired to. `graph` and `done` are
  /// borrowed.
  KeptArtifacts(const Graph& graph, const CheckpointSources& done, const std::vector<bool>& runs);

  /// The outputs of node `index` that somebody makes something of. One that only passes through
  /// data, whose output nobody takes, is waited for and not among them.
  std::set<std::string> wanted(std::size_t index) const;
  /// The artifacts on the edges of `node`, no longer held here if it was the last to want them.
  /// Throws StageError where one that it needs was not put out.
  Inputs take(const Node& node);
  /// What is kept here on `device` for others than the one that has taken `inputs`, each artifact
  /// once.
  std::vector<NamedBytes> held_elsewhere(const Inputs& inputs, std::string_view device) const;
  /// Keeps those outputs of node `index` that are wanted. One may be absent, such as the test part
  /// of data without one.
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
