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

/// The nodes of one run that need not be computed, because a node of the same kind, id, options and
/// inputs has finished before. Its files are put into the node's own folder, so that the record of
/// a run stands by itself. What was run to an end is entered in the index, whether or not this run
/// reuses anything.
///
/// A smoke run, a run that somebody looks into, and what follows from the weights of another run
/// neither take nor leave anything.
class Reuse {
 public:
  /// Where the results of a node come from whose files are in this run's folder.
  struct Source {
    std::filesystem::path
        run;  ///< the folder of the run that they were taken from; this one's where it is resumed
    std::vector<NodeMetric> metrics;  ///< that were measured then
  };

  /// `graph` and `options` are borrowed; options.reuse must be there. `facts` is by node.
  Reuse(const Graph& graph, std::vector<StageFacts> facts, const RunOptions& options);

  /// Takes node `index` if that can be done; true if it is taken. One that is `needed` by others is
  /// run all the same, and taken only where its stage can make use of that. Looks again only after
  /// note() told something else.
  bool take(std::size_t index, bool needed);
  const std::optional<Source>& taken(std::size_t index) const { return nodes_[index].taken; }
  /// Of a node whose results may be taken: waits until nobody else computes the same, then tries
  /// take() once more, as others may have finished it. Its turn, to be kept until enter(); nullopt
  /// where it was taken or need not wait.
  std::optional<Turn> take_in_turn(std::size_t index, const std::function<bool()>& is_cancelled,
                                   const std::function<void()>& on_wait);
  /// The run that take() would take it from; nothing is taken.
  std::optional<std::filesystem::path> find(std::size_t index) const;
  /// The taken node turned out to be damaged: its files are removed, here and from the index.
  void drop(std::size_t index);
  /// Why node `index`, which is not taken, is computed although one like it has finished before;
  /// nullopt where there is nothing to say.
  std::optional<std::string> why_anew(std::size_t index) const;

  /// What the stage of a node says of itself once it has run.
  void note(std::size_t index, StageFacts facts);
  /// Enters the finished node, which has measured so many metrics. What goes wrong is given back,
  /// for the log: it spoils no run.
  std::optional<std::string> enter(std::size_t index, std::int64_t metrics) const;
  /// By which it may be taken again; empty where it may not.
  std::string key(std::size_t index) const;

 private:
  struct State {
    bool is_eligible = false;  // its results may be taken and left
    bool is_steady = true;     // what it found outside was the same before and after
    std::optional<Source> taken;
    std::string tried;  // the key that was looked for last
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
