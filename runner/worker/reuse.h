#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/graph/node_document.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/record/node_index.h"

namespace runner {

struct RunOptions;

/// The nodes of one run that need not be computed because a node of the same kind, id, options and
/// inputs has finished before. Its files are put into the node's own folder, so that the record of
/// a run is self-contained. Finished nodes are entered in the index, whether or not this run reuses
/// anything.
///
/// A smoke run, an observed run, and nodes that depend on the weights of another run neither reuse
/// results nor offer theirs.
class Reuse {
 public:
  /// The origin of a node's results whose files are in this run's folder.
  struct Source {
    std::filesystem::path
        run;  ///< the folder of the run that they come from; this one's if it is resumed
    std::vector<NodeMetric> metrics;  ///< the metrics recorded then
  };

  /// `graph` and `options` are borrowed; options.reuse must be set. `facts` is indexed by node.
  Reuse(const Graph& graph, std::vector<StageFacts> facts, const RunOptions& options);

  /// Reuses the results for node `index` if possible; true if reused. A node that is `needed` by
  /// others runs anyway, and its results are reused only if its stage can use them. Checks again
  /// only after note() has reported different facts.
  bool take(std::size_t index, bool needed);
  const std::optional<Source>& taken(std::size_t index) const { return nodes_[index].taken; }
  /// For a node whose results may be reused: waits until no other run computes the same, then tries
  /// take() once more, as another run may have finished it. Returns the turn, to be kept until
  /// enter(); nullopt if the results were reused or no wait is needed.
  std::optional<Turn> take_in_turn(std::size_t index, const std::function<bool()>& is_cancelled,
                                   const std::function<void()>& on_wait);
  /// The run that take() would reuse; changes nothing.
  std::optional<std::filesystem::path> find(std::size_t index) const;
  /// The reused node turned out to be damaged: removes its files, here and from the index.
  void drop(std::size_t index);
  /// Why node `index`, which is not reused, is computed although one like it has finished before;
  /// nullopt if there is nothing to say.
  std::optional<std::string> why_anew(std::size_t index) const;

  /// What a node's stage reports about itself once it has run.
  void note(std::size_t index, StageFacts facts);
  /// Enters the finished node, which has recorded `metrics` metrics. Returns any problem, for the
  /// log; it does not fail the run.
  std::optional<std::string> enter(std::size_t index, std::int64_t metrics) const;
  /// The key by which it may be reused; empty if it may not.
  std::string key(std::size_t index) const;

 private:
  struct State {
    bool is_eligible = false;  // its results may be reused and offered
    bool is_steady = true;     // what it found outside its options was the same before and after
    std::optional<Source> taken;
    std::string tried;  // the key of the last lookup
    bool was_damaged = false;
  };
  bool looks_for(std::size_t index) const;
  bool is_steady(std::size_t index) const;
  nlohmann::json document(std::size_t index) const;
  std::filesystem::path folder(std::size_t index) const;
  std::optional<Source> take_own(std::size_t index, const std::string& key) const;
  std::optional<Source> take_indexed(std::size_t index, const std::string& key);

  const Graph& graph_;
  const RunOptions& options_;
  std::optional<NodeIndex> index_;
  std::vector<StageFacts> facts_;  // by node
  std::vector<State> nodes_;       // by node
};

}  // namespace runner
