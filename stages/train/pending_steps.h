#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/train/schedule.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_log.h"

namespace stages {

/// How large a number of the steps before was (their losses, say), by which one is seen to be out
/// of all proportion: more than `factor` times the largest so far. What is usual grows slowly, so
/// that a training that diverges step by step is noticed too. Of the first number nothing is usual
/// yet: it may be up to a million.
class UsualSize {
 public:
  explicit UsualSize(double factor) : factor_(factor) {}

  /// False, and nothing is learnt of it, where `number` is out of proportion.
  bool observe(double number);
  bool is_proportionate(double number) const;

  /// nullopt before the first number.
  const std::optional<double>& usual() const { return usual_; }
  void set_usual(std::optional<double> usual) { usual_ = usual; }

 private:
  double factor_;
  std::optional<double> usual_;
};

/// A step whose numbers the host has not looked at.
struct PendingStep {
  StepPlace place;
  StepNumbers numbers;
  std::vector<Rates> rates;
  StepSnapshot before;
  bool written =
      false;  ///< its commit has run, and nothing is known to have kept it from the weights
};

/// The steps between their computation and their record. A CPU's are looked at before they are
/// committed, a GPU's one step later, so that the host never waits for it:
///
///   steps.add({…});
///   steps.flush(1);  // all but the one that was added
///   execution.commit(…);
///   steps.mark_written();
class PendingSteps {
 public:
  /// `data` names samples in errors, `groups` are the names of the optimizer's; both references are
  /// borrowed.
  PendingSteps(const Dataset& data, std::vector<std::string> groups, TrainingLog& log)
      : data_(data), groups_(std::move(groups)), log_(log) {}

  void add(PendingStep step) { steps_.push_back(std::move(step)); }
  /// The latest step, if nobody has looked at it yet, has been committed.
  void mark_written();

  /// Looks at steps until `allowed` are left unseen, and records them. Throws runner::StageError
  /// for one whose loss or gradient is not finite, and where the gradients have overflowed for a
  /// hundred steps. Says so, once an epoch, where a loss or a gradient's norm is out of all
  /// proportion to those before.
  void flush(std::size_t allowed);

  /// Takes back the earliest step that has not reached the weights, and with it those that came
  /// after.
  void undo_unwritten() const;

  /// What the recorded steps of this epoch have measured.
  const EpochSoFar& epoch() const { return epoch_; }
  /// Another epoch; the latest step stays known.
  void begin_epoch();
  /// Whether a validation loss is in proportion to the losses of the steps.
  bool is_proportionate(double loss) const { return losses_.is_proportionate(loss); }

  std::int64_t skipped_in_a_row() const { return skipped_in_a_row_; }
  /// Continues from what another has recorded.
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
