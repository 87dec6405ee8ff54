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
  std::int64_t memory_bytes = 0;  ///< tensor memory in use now
  std::int64_t budget_bytes = 0;  ///< the limit for tensor memory

  std::int64_t bytes = 0, bytes_in_all = 0;  ///< bytes of a file being downloaded or read
  double bytes_per_second = 0;
};

/// Observes training tensor by tensor. What can be observed is defined in stages/
/// (stages/train/observed_training.h).
class Observer {
 public:
  virtual ~Observer() = default;
};

/// Connects the ranks of a run during training. Implemented in stages/ (stages/ranks/rank_group.h).
class Peers {
 public:
  virtual ~Peers() = default;
};

/// One of the processes that train together, each on its share of every batch.
struct RankOfRun {
  int rank = 0;
  int size = 1;            ///< the number of ranks
  Peers* peers = nullptr;  ///< borrowed; null in a dry run or if there is only one rank
  /// This node's folder in rank 0, the only rank that saves checkpoints. In rank 0, the node's own
  /// folder.
  std::filesystem::path first_folder = {};
  /// The outputs of this node that all ranks need. They can share the work on these.
  std::set<std::string> outputs_of_all = {};
};

/// The checkpoint from which a training stage loads its weights instead of training them.
struct CheckpointSource {
  enum class Choice { kKept, kBest, kLatest, kThis };
  std::filesystem::path folder;   ///< folder of the node's checkpoints; for kThis, of that
                                  ///< checkpoint
  Choice choice = Choice::kKept;  ///< kKept: as the stage's own options specify
  bool reused = false;  ///< a copy in the node's own folder; if damaged, it is removed and the node
                        ///< retrained
  /// For a stage that averages its weights: true for the average, false for the trained weights,
  /// nullopt to follow the stage's options.
  std::optional<bool> averaged = {};
};

/// What happened to earlier workers of this run within the same command.
struct Restarts {
  std::int64_t plans = 0;  ///< number of plans skipped because workers were killed
  std::int64_t retries =
      0;  ///< retries of a batch before moving to this device; for on_oom_policy: legacy
  bool has_moved = false;  ///< true if the run moved here from another device; how a step was
                           ///< computed there no longer applies
};

/// Records the samples that one training node of a run was given.
struct TrainedData {
  /// The data node's folder, which contains its division. Empty in a dry run, when the division
  /// does not exist yet and the evaluation is wired to the same parts.
  std::filesystem::path folder = {};
  std::set<std::string> parts = {};  ///< "train", "validation"
  bool is_earlier = false;           ///< true if the record is from an earlier, finished run
};

/// A part of a histogram: how many values are at least `left` and less than `right`.
struct HistogramBucket {
  double left = 0, right = 0;
  std::int64_t count = 0;
  bool operator==(const HistogramBucket&) const = default;
};

/// Facts about the run that a node receives before it starts.
struct NodeFacts {
  std::uint64_t seed =
      0;  ///< derived from the run's seed and the node's id, so it is unaffected by other stages
  std::string recipe_hash = {};  ///< SHA-256 of the resolved recipe
  std::string device = {};       ///< "cpu" or "cuda:K"
  std::filesystem::path folder =
      {};  ///< the only folder that this node may write to; it already exists. Empty: no writing
  bool resuming = false;  ///< the run was interrupted; the node continues from its saved state
  bool smoke = false;  ///< `run --smoke`: at most two steps of everything; results are meaningless
  std::optional<CheckpointSource> trained = {};  ///< set if an earlier run has trained this node
  /// True if the folder contains the files of a finished node with the same kind, options and
  /// inputs. A stage with an x-cacheable kind then reads its outputs from the existing files.
  bool reuses = false;
  std::optional<std::set<std::string>> wanted =
      {};                        ///< the output ports that have consumers; nullopt: all
  Observer* observer = nullptr;  ///< borrowed; null in an ordinary run
  RankOfRun ranks = {};
  Restarts restarts = {};
  /// For a data stage: the folder of this node in the run that is resumed, repeated or evaluated.
  /// The node divides its samples the same way. Empty if there is no such run.
  std::filesystem::path earlier = {};
  bool accepts_changes = false;  ///< with --force: report changes since then, but accept them
  std::vector<TrainedData> trained_data =
      {};  ///< for an evaluation: the training data of the evaluated nodes

  /// False if no node consumes `output`; this node may then omit it.
  bool wants(const std::string& output) const { return !wanted || wanted->contains(output); }
};

/// A running stage's access to its environment, apart from its inputs. An implementation without a
/// record keeps the default implementations. In the worker this is a NodeContext
/// (runner/worker/node_context.h), which the Executor creates for each node.
class RunContext {
 public:
  explicit RunContext(NodeFacts facts) : node_(std::move(facts)) {}
  virtual ~RunContext() = default;

  const NodeFacts& node() const { return node_; }

  /// Records one metric, such as ("train/loss", 0.31, step 120), in metrics.jsonl.
  virtual void metric(std::string_view name, double value, std::int64_t step) = 0;
  /// Records a histogram, such as ("gradients/head.weight", …, step 120), in histograms.jsonl. The
  /// buckets are in ascending order.
  virtual void histogram(std::string_view /*name*/, std::vector<HistogramBucket> /*buckets*/,
                         std::int64_t /*step*/) {}
  /// Reports progress. May be called as often as desired; the display decides what to show.
  virtual void progress(const Progress& progress) = 0;
  /// Shows one line to the user, such as the result of an epoch.
  virtual void say(std::string_view line) = 0;
  /// Writes one line to the log, such as the result of an epoch that is much like the previous one.
  /// The user sees it only with -v.
  virtual void detail(std::string_view /*line*/) {}
  /// Writes one line to the log at debug level, such as a choice and the rule behind it. The line
  /// may be dropped.
  virtual void debug(std::string_view /*line*/) {}

  /// Reports that the stage has divided samples among its outputs. `division` returns the contents
  /// of the file NodeLayout::division(), from which a resumed run or an evaluation restores the
  /// division.
  virtual void divided(const std::function<std::string()>& /*division*/) {}

  /// Records that the stage has recovered. The caller must also call say().
  virtual void recovered(const Recovery& /*recovery*/) {}

  /// True once the run must stop. The stage then saves what it can, and returns or throws Canceled
  /// within one step.
  virtual bool canceled() const = 0;
  /// Returns true once per request to save now and continue.
  virtual bool take_save_request() { return false; }

  /// Reports that a resuming node continues after its first `metrics` metrics, and after `step`.
  /// Later metrics and histograms are discarded.
  virtual void resumed(std::int64_t /*metrics*/, std::int64_t /*step*/) {}
  /// Waits until all metrics so far are on the disk, and returns the number of metrics of this
  /// node, for resumed(). Called before each save, so that a save never contains a step that the
  /// record lacks.
  virtual std::int64_t sync_metrics() { return 0; }
  /// Reports that the files or weights that the node was going to reuse are damaged, with the
  /// reason. They have been removed from its folder, and the stage redoes its work.
  virtual void not_reused(std::string_view /*why*/) {
    node_.reuses = false;
    node_.trained.reset();
  }

 protected:
  NodeFacts node_;
};

/// Thrown by a stage that stops because context.canceled() returned true.
struct Canceled {};

}  // namespace runner
