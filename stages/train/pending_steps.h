#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/random/generator_state.h"
#include "stages/train/schedule.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_plan.h"
#include "stages/train/step_snapshot.h"
#include "stages/train/training_log.h"

namespace stages {

/// Tracks the usual size of a number, such as the loss, over past steps. A number is
/// disproportionate if it is more than `factor` times the usual size. The usual size grows slowly,
/// so training that diverges step by step is noticed too. The first number may be up to a million.
class UsualSize {
 public:
  explicit UsualSize(double factor) : factor_(factor) {}

  /// Returns false if `number` is disproportionate; it is then not recorded.
  bool observe(double number);
  bool is_proportionate(double number) const;

  /// Returns the usual size; nullopt before the first number.
  const std::optional<double>& usual() const { return usual_; }
  void set_usual(std::optional<double> usual) { usual_ = usual; }

 private:
  double factor_;
  std::optional<double> usual_;
};

/// A step with numbers that the host has not read yet.
struct PendingStep {
  StepPlace place;
  StepNumbers numbers;
  std::vector<Rates> rates;
  GeneratorStates generators;  ///< before the step
  std::optional<GradientHistograms> histograms = {};
  bool written = false;  ///< committed, and not known to have been skipped
};

/// The steps that have been computed but not yet recorded. On a CPU, a step is read before it is
/// committed:
///
///   steps.add({…});
///   steps.flush(0);
///   execution.commit(…);
///   steps.mark_written();
///
/// On a GPU, flush_due() is called instead. It reads a step only once its numbers are needed, and
/// while the GPU computes the next step, so the GPU always has work.
class PendingSteps {
 public:
  /// `data` provides sample names for errors; `groups` are the names of the optimizer's groups.
  /// `data` and `log` are borrowed.
  PendingSteps(const Dataset& data, std::vector<std::string> groups, TrainingLog& log)
      : data_(data), groups_(std::move(groups)), log_(log) {}

  void add(PendingStep step) { steps_.push_back(std::move(step)); }
  /// Marks the latest step as committed, if it has not been read yet.
  void mark_written();

  /// Reads and records steps until `allowed` are left. Throws runner::StageError for a step with a
  /// loss or gradient that is not finite, or if the gradients have overflowed for a hundred steps
  /// in a row. Warns once per epoch if a loss or gradient norm is out of proportion to earlier
  /// ones.
  void flush(std::size_t allowed);

  /// After add(): flushes all steps but the latest if the one before it has metrics (log_every) or
  /// histograms, or if a hundred steps are pending.
  void flush_due();

  /// Undoes the earliest step that has not changed the weights, and all later ones. `before` was
  /// saved before the latest step, with StepExecution::failed().
  void undo_unwritten(const StepSnapshot& before) const;

  /// Returns the measurements of the recorded steps of this epoch.
  const EpochSoFar& epoch() const { return epoch_; }
  /// Starts a new epoch. The latest step is kept.
  void begin_epoch();
  /// True if a validation loss is in proportion to the steps' losses.
  bool is_proportionate(double loss) const { return losses_.is_proportionate(loss); }

  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  /// Restores the state recorded in a checkpoint.
  void restore(EpochSoFar epoch, std::int64_t skipped_in_a_row);

 private:
  static constexpr double kLossFactor = 100, kNormFactor = 1000;

  void record(const PendingStep& step);
  void look_at_sizes(const PendingStep& step);

  const Dataset& data_;
  const std::vector<std::string> groups_;
  TrainingLog& log_;
  std::deque<PendingStep> steps_;
  EpochSoFar epoch_;
  UsualSize losses_{kLossFactor}, gradient_norms_{kNormFactor};
  bool has_said_disproportionate_ = false;  // in this epoch
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace stages
