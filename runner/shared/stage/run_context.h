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

/// How far a stage is. Zero and empty members are unknown and not shown.
struct Progress {
  std::string phase;                   ///< "train", "validate", "evaluate", "make data"
  std::int64_t epoch = 0, epochs = 0;  ///< 1-based
  std::int64_t step = 0, steps = 0;    ///< 1-based, within the whole stage
  double samples_per_second = 0;
  double loss = 0;
  double seconds_left = 0;
  std::int64_t memory_bytes = 0;  ///< in use now
  std::int64_t budget_bytes = 0;  ///< what may be used

  std::int64_t bytes = 0, bytes_in_all = 0;  ///< of a file that is fetched or read
  double bytes_per_second = 0;
};

/// Looks into a training, tensor by tensor. stages/ knows what can be seen
/// (stages/train/step_recovery.h).
class Observer {
 public:
  virtual ~Observer() = default;
};

/// Where a training finds the weights that it puts out instead of training.
struct CheckpointSource {
  enum class Choice { kKept, kBest, kLatest, kThis };
  std::filesystem::path folder;   ///< of a training's checkpoints; for kThis, of the one checkpoint
  Choice choice = Choice::kKept;  ///< kKept: as the training's own options say
  bool reused = false;  ///< they are a copy in the node's own folder; damaged ones are removed and
                        ///< trained again
  /// Of a training that keeps an average of its weights: whether that is meant, or the weights as
  /// trained; nullopt: what its options say.
  std::optional<bool> averaged = {};
};

/// What became of the workers that were at work on a run before this one, in the same command.
struct Restarts {
  std::int64_t plans =
      0;  ///< so many plans after its own a training continues with, since workers were killed
  std::int64_t retries =
      0;  ///< of a batch, before it was moved to this device; for on_oom_policy: legacy
  bool has_moved =
      false;  ///< from another device: how a step was computed there is no measure of this one
};

/// Where a run says which samples one of its trainings was given.
struct TrainedData {
  /// Of the data's node, with its division; empty in a dry run: that is not there yet, and the
  /// evaluation is wired to these very parts.
  std::filesystem::path folder = {};
  std::set<std::string> parts = {};  ///< "train", "validation"
  bool is_earlier = false;           ///< of a run before this one, which has ended
};

/// What a node is told about its run before it starts.
struct NodeFacts {
  std::uint64_t seed =
      0;  ///< a function of the run's seed and the node's id: adding a stage shifts no other's
  std::string recipe_hash = {};  ///< SHA-256 of the resolved recipe
  std::string device = {};       ///< "cpu" or "cuda:K"
  std::filesystem::path folder =
      {};  ///< the only one that this node may write to; it exists. Empty: it may write nothing
  bool resuming = false;  ///< this run has been at work before: the node continues from what it
                          ///< saved in its folder
  bool smoke =
      false;  ///< `run --smoke`: at most two steps of everything, results are not to be trusted
  std::optional<CheckpointSource> trained =
      {};  ///< set where this node's training has been done by an earlier run
  /// The folder holds the files with which a node of the same kind, options and inputs has finished
  /// before: a stage whose schema says x-cacheable reads its outputs from them, as far as they are
  /// there.
  bool reuses = false;
  std::optional<std::set<std::string>> wanted =
      {};  ///< the output ports of which somebody takes something; nullopt: all
  Observer* observer = nullptr;  ///< borrowed; null in an ordinary run
  Restarts restarts = {};
  /// Of data: this node's folder in the run that goes on, is done again or has trained what is
  /// evaluated. As that one was divided, this one is. Empty: there is none.
  std::filesystem::path earlier = {};
  bool accepts_changes = false;  ///< --force: what has changed since is put up with, and said
  std::vector<TrainedData> trained_data =
      {};  ///< of an evaluation: what the trainings were given that it evaluates

  /// False where nobody takes what this node puts out on the port `output`: it may be left out.
  bool wants(const std::string& output) const { return !wanted || wanted->contains(output); }
};

/// What a running stage may touch of the world outside its inputs. One that keeps no record leaves
/// the defaults. In the worker it is a NodeContext (runner/worker/node_context.h), made by the
/// Executor for each node.
class RunContext {
 public:
  explicit RunContext(NodeFacts facts) : node_(std::move(facts)) {}
  virtual ~RunContext() = default;

  const NodeFacts& node() const { return node_; }

  /// One measured number, e.g. ("train/loss", 0.31, step 120). Goes to metrics.jsonl.
  virtual void metric(std::string_view name, double value, std::int64_t step) = 0;
  /// Called as often as wanted; the display decides what to show.
  virtual void progress(const Progress& progress) = 0;
  /// One line for the user, e.g. an epoch's result.
  virtual void say(std::string_view line) = 0;
  /// One line for the log, e.g. an epoch's result that is like the one before; shown to those who
  /// want to see much
  /// (-v).
  virtual void detail(std::string_view /*line*/) {}
  /// One line for the log where that is at level debug, e.g. what was chosen and by which rule. May
  /// be dropped.
  virtual void debug(std::string_view /*line*/) {}

  /// The stage has divided samples among its outputs: `division` gives the bytes of
  /// NodeLayout::division(), by which whoever goes on with the run, or evaluates it, divides them
  /// again.
  virtual void divided(const std::function<std::string()>& /*division*/) {}

  /// The stage has recovered, which is recorded; whoever calls this also says it.
  virtual void recovered(const Recovery& /*recovery*/) {}

  /// True once the run is to stop; a stage then saves what it can, and returns or throws Cancelled
  /// within a step.
  virtual bool cancelled() const = 0;
  /// True once for every request to save now and continue.
  virtual bool take_save_request() { return false; }

  /// Says that a node which is resuming continues after its first `metrics` metrics; later ones are
  /// taken back.
  virtual void resumed(std::int64_t /*metrics*/) {}
  /// Returns once every metric so far is on the disk, and how many of this node there are, for
  /// resumed(). Called before each save, so that no save knows of a step that the record does not.
  virtual std::int64_t sync_metrics() { return 0; }
  /// Says that the files that the node reuses, or the weights that it was to reuse, are damaged,
  /// and how; they are gone from its folder and the stage does its work again.
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
