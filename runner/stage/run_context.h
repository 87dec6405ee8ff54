#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

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

/// Looks into a training, tensor by tensor. stages/ knows what can be seen (stages/train/step_observer.h).
class Observer {
 public:
  virtual ~Observer() = default;
};

/// Where a training finds the weights that it puts out instead of training.
struct TrainedWeights {
  enum class Choice { kKept, kBest, kLatest, kThis };
  std::filesystem::path folder;   ///< of a training's checkpoints; for kThis, of the one checkpoint
  Choice choice = Choice::kKept;  ///< kKept: as the training's own options say
  bool reused = false;  ///< they are a copy in the node's own folder; damaged ones are removed and trained again
};

/// What a running stage may touch of the world outside its inputs.
class RunContext {
 public:
  virtual ~RunContext() = default;

  /// One measured number, e.g. ("train/loss", 0.31, step 120). Goes to metrics.jsonl.
  virtual void metric(std::string_view name, double value, std::int64_t step) = 0;
  /// Called as often as wanted; the display decides what to show.
  virtual void progress(const Progress& progress) = 0;
  /// One line for the user, e.g. an epoch's result.
  virtual void say(std::string_view line) = 0;
  /// One line for the log where that is at level debug, e.g. what was chosen and by which rule. May be dropped.
  virtual void debug(std::string_view /*line*/) {}

  /// True once the run is to stop; a stage then saves what it can, and returns or throws Cancelled within a step.
  virtual bool cancelled() const = 0;
  /// True once for every request to save now and continue.
  virtual bool take_save_request() = 0;

  /// True if this run has been at work before: the node continues from what it saved in folder().
  virtual bool resuming() const = 0;
  /// Says that a node which is resuming() continues after its first `metrics` metrics; later ones are taken back.
  virtual void resumed(std::int64_t metrics) = 0;
  /// Returns once every metric so far is on the disk, and how many of this node there are, for resumed(). Called before
  /// each save, so that no save knows of a step that the record does not.
  virtual std::int64_t flush() = 0;

  /// This node's seed: a function of the run's seed and the node's id, so that adding a stage shifts no other.
  virtual std::uint64_t seed() const = 0;
  /// SHA-256 of the resolved recipe.
  virtual std::string_view recipe_hash() const = 0;
  /// "cpu" or "cuda:K".
  virtual std::string_view device() const = 0;
  /// The only folder this node may write to; it exists. Empty: it may write nothing.
  virtual const std::filesystem::path& folder() const = 0;
  /// Set where this node's training has been done by an earlier run.
  virtual std::optional<TrainedWeights> trained() const { return std::nullopt; }
  /// True where folder() holds the files with which a node of the same kind, options and inputs has finished before: a
  /// stage whose schema says x-cacheable reads its outputs from them, as far as they are there.
  virtual bool reuses() const { return false; }
  /// Says that the files of reuses(), or the weights of trained() where those are to be reused, are damaged, and how;
  /// they are gone from folder() and the stage does its work again.
  virtual void not_reused(std::string_view /*why*/) {}
  /// False where nobody takes what this node puts out on the port `output`: it may be left out.
  virtual bool wants(std::string_view /*output*/) const { return true; }
  /// True under `run --smoke`: at most two steps of everything, results are not to be trusted.
  virtual bool smoke() const = 0;
  /// The observer of this run; null in an ordinary one.
  virtual Observer* observer() const { return nullptr; }
};

/// Thrown by a stage that stops because context.cancelled().
struct Cancelled {};

}  // namespace runner
