#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/error/stage_error.h"

namespace runner {

/// The progress of a stage. Zero and empty members are unknown and not shown.
struct Progress {
  std::string phase;                   ///< "train", "validate", "evaluate", "make data"
  std::int64_t epoch = 0, epochs = 0;  ///< 1-based
  std::int64_t step = 0, steps = 0;    ///< 1-based, within the whole stage
  double samples_per_second = 0;
  double loss = 0;
  double seconds_left = 0;
  std::int64_t memory_bytes = 0;  ///< in use now
  std::int64_t budget_bytes = 0;  ///< the limit

  std::int64_t bytes = 0, bytes_in_all = 0;  ///< of a file that is downloaded or read
  double bytes_per_second = 0;
};

/// Observes a training, tensor by tensor. stages/ defines what can be observed
/// (stages/train/step_recovery.h).
class Observer {
 public:
  virtual ~Observer() = default;
};

/// Connects the ranks of a run while it trains. stages/ defines it (stages/ranks/rank_group.h).
class Peers {
 public:
  virtual ~Peers() = default;
};

/// The processes that train together, each on its part of every batch.
struct RankOfRun {
  int rank = 0;
  int size = 1;            ///< the number of ranks
  Peers* peers = nullptr;  ///< borrowed; null in a dry run, or if there is one rank
  /// The folder of the same node of rank 0, which alone saves checkpoints; of rank 0 it is its own.
  std::filesystem::path first_folder = {};
};

/// Where a training loads the weights that it outputs instead of training.
struct CheckpointSource {
  enum class Choice { kKept, kBest, kLatest, kThis };
  std::filesystem::path folder;   ///< of the training's checkpoints; for kThis, of the one
                                  ///< checkpoint
  Choice choice = Choice::kKept;  ///< kKept: as the training's own options say
  bool reused = false;  ///< they are a copy in the node's own folder; if damaged, they are removed
                        ///< and trained again
  /// For a training that keeps an average of its weights: true for the average, false for the
  /// weights as trained; nullopt: by its options.
  std::optional<bool> averaged = {};
};

/// What happened to earlier workers of this run, in the same command.
struct Restarts {
  std::int64_t plans =
      0;  ///< a training continues this many plans after its own, since workers were killed
  std::int64_t retries =
      0;  ///< of a batch, before it moved to this device; for on_oom_policy: legacy
  bool has_moved = false;  ///< it comes from another device: how a step was computed there does not
                           ///< apply to this one
};

/// The run record of which samples one of its trainings was given.
struct TrainedData {
  /// Of the data node, with its division. Empty in a dry run: the division does not exist yet, and
  /// the evaluation is wired to the same parts.
  std::filesystem::path folder = {};
  std::set<std::string> parts = {};  ///< "train", "validation"
  bool is_earlier = false;           ///< from an earlier run, which has ended
};

/// The facts about the run that a node gets before it starts.
struct NodeFacts {
  std::uint64_t seed =
      0;  ///< derived from the run's seed and the node's id: adding a stage changes no other seed
  std::string recipe_hash = {};  ///< SHA-256 of the resolved recipe
  std::string device = {};       ///< "cpu" or "cuda:K"
  std::filesystem::path folder =
      {};  ///< the only folder that this node may write to; it exists. Empty: it may write nothing
  bool resuming = false;  ///< this run was interrupted: the node continues from what it saved in
                          ///< its folder
  bool smoke = false;  ///< `run --smoke`: at most two steps of everything; results are meaningless
  std::optional<CheckpointSource> trained =
      {};  ///< set if an earlier run has done this node's training
  /// The folder holds the files of a finished node of the same kind, options and inputs: a stage
  /// whose schema says x-cacheable reads its outputs from those that exist.
  bool reuses = false;
  std::optional<std::set<std::string>> wanted =
      {};                        ///< the output ports that have consumers; nullopt: all
  Observer* observer = nullptr;  ///< borrowed; null in an ordinary run
  RankOfRun ranks = {};
  Restarts restarts = {};
  /// For data: this node's folder in the run that is resumed, repeated or evaluated. This node
  /// divides its samples in the same way. Empty: none.
  std::filesystem::path earlier = {};
  bool accepts_changes = false;  ///< --force: accept changes since then, and report them
  std::vector<TrainedData> trained_data =
      {};  ///< for an evaluation: the data that the evaluated trainings were given

  /// False if the output `output` has no consumer: the node may omit it.
  bool wants(const std::string& output) const { return !wanted || wanted->contains(output); }
};

/// A running stage's access to its environment other than its inputs. An implementation that keeps
/// no record leaves the defaults. In the worker it is a NodeContext (runner/worker/node_context.h),
/// which the Executor creates for each node.
class RunContext {
 public:
  explicit RunContext(NodeFacts facts) : node_(std::move(facts)) {}
  virtual ~RunContext() = default;

  const NodeFacts& node() const { return node_; }

  /// One metric, e.g. ("train/loss", 0.31, step 120). Goes to metrics.jsonl.
  virtual void metric(std::string_view name, double value, std::int64_t step) = 0;
  /// May be called at any rate; the display decides what to show.
  virtual void progress(const Progress& progress) = 0;
  /// One line for the user, e.g. an epoch's result.
  virtual void say(std::string_view line) = 0;
  /// One line for the log, e.g. an epoch's result that resembles the previous one. Shown only with
  /// -v.
  virtual void detail(std::string_view /*line*/) {}
  /// One line for the log at level debug, e.g. what was chosen and by which rule. May be dropped.
  virtual void debug(std::string_view /*line*/) {}

  /// The stage has divided samples among its outputs. `division` returns the bytes of
  /// NodeLayout::division(), from which a resumed run or an evaluation divides them in the same
  /// way.
  virtual void divided(const std::function<std::string()>& /*division*/) {}

  /// The stage has recovered. This is only recorded; the caller also says it.
  virtual void recovered(const Recovery& /*recovery*/) {}

  /// True once the run must stop; a stage then saves what it can, and returns or throws Cancelled
  /// within a step.
  virtual bool cancelled() const = 0;
  /// True once for every request to save now and continue.
  virtual bool take_save_request() { return false; }

  /// Says that a resuming node continues after its first `metrics` metrics; later ones are
  /// discarded.
  virtual void resumed(std::int64_t /*metrics*/) {}
  /// Returns once every metric so far is on the disk, with the number of metrics of this node, for
  /// resumed(). Called before each save, so that a save never contains a step that the record
  /// lacks.
  virtual std::int64_t sync_metrics() { return 0; }
  /// Says that the files or weights that the node was to reuse are damaged, and how. They have been
  /// removed from its folder and the stage does its work again.
  virtual void not_reused(std::string_view /*why*/) {
    node_.reuses = false;
    node_.trained.reset();
  }

 protected:
  NodeFacts node_;
};

/// Thrown by a stage that stops because context.cancelled().
struct Cancelled {};

}  // namespace runner
