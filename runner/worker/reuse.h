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

/// The nodes of one run that need not be computed because a node with the same kind, id, options
/// and inputs has already finished. That node's files are copied into the node's own folder, so a
/// run's record is self-contained. Finished nodes are added to the index, whether or not this run
/// reuses anything.
///
/// A smoke run, an observed run, and nodes that depend on weights of another run neither reuse
/// results nor offer theirs.
class Reuse {
 public:
  /// The origin of results copied into the folder of a node of this run.
  struct Source {
    std::filesystem::path
        run;  ///< the folder of the run with the original results; this run if resumed
    std::vector<NodeMetric> metrics;  ///< the metrics recorded with the results
  };

  /// `graph` and `options` are borrowed; options.reuse must be set. `facts` is indexed by node.
  Reuse(const Graph& graph, std::vector<StageFacts> facts, const RunOptions& options);

  /// Reuses results for node `index` if possible; returns true if it did. A node that is `needed`
  /// by others runs anyway, and results are reused only if its stage can use them. Does not look
  /// again until note() has reported different facts.
  bool take(std::size_t index, bool needed);
  const std::optional<Source>& taken(std::size_t index) const { return nodes_[index].taken; }
  /// For a node with reusable results, waits until no other run is computing them, then tries
  /// take() once more, since another run may have finished the node. Returns the turn, which must
  /// be kept until enter(); nullopt if the results were reused or there is no need to wait.
  std::optional<Turn> take_in_turn(std::size_t index, const std::function<bool()>& is_canceled,
                                   const std::function<void()>& on_wait);
  /// Returns the run that take() would reuse, without changing anything.
  std::optional<std::filesystem::path> find(std::size_t index) const;
  /// Removes the files of a reused node that turned out to be damaged, along with its entry in the
  /// index.
  void drop(std::size_t index);
  /// Returns why node `index`, which is not reused, is computed although a similar one has already
  /// finished; nullopt if there is nothing to report.
  std::optional<std::string> why_anew(std::size_t index) const;

  /// Stores what a node's stage reports about itself once it has run.
  void note(std::size_t index, StageFacts facts);
  /// Adds the finished node, which has recorded `metrics` metrics, to the index. Returns any
  /// problem, for the log; problems do not make the run fail.
  std::optional<std::string> enter(std::size_t index, std::int64_t metrics) const;
  /// Returns the key under which the node may be reused; empty if it may not.
  std::string key(std::size_t index) const;

 private:
  struct State {
    bool is_eligible = false;  // results may be reused and offered
    bool is_steady = true;     // facts other than the options have not changed during this run
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
