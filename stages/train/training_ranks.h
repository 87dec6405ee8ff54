#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/loader.h"
#include "stages/train/trainer.h"

namespace stages {

class RankGroup;

/// Lets the ranks of a training run agree on what to do. Does nothing if there is only one rank.
class TrainingRanks {
 public:
  /// All arguments are borrowed.
  TrainingRanks(const TrainingStep& step, const TrainingData& data, runner::RunContext& context)
      : step_(step), data_(data), context_(context) {}

  /// Checks that all ranks continue after the same step, with the same data. Throws
  /// runner::StageError, kNoMeeting, on each rank that differs from the first.
  void compare(std::int64_t steps_done) const;

  /// Returns how this rank reads the training data in an epoch. In the first epoch, rank 0 reports
  /// remarks on all samples, so every sample is read if there may be any remarks.
  PartialReading reading(bool is_first_epoch) const;

  /// Must be called when `step` (1-based) begins.
  void begin_step(std::int64_t step) const;

  /// A request that a rank can receive between two steps.
  enum class Request : std::int64_t { kNothing, kSave, kStop };
  /// Returns the largest of all ranks' requests.
  Request agreed(Request own) const;
  /// Waits until the rank that was asked to stop has exited. Throws runner::Canceled if this rank
  /// was asked as well, since a launcher asks one rank after another; otherwise runner::StageError,
  /// kRankLost.
  [[noreturn]] void end_after_others() const;

 private:
  const TrainingStep& step_;
  const TrainingData& data_;
  runner::RunContext& context_;
};

/// Checks that all ranks have the same samples; `validation` may be null. Throws like
/// TrainingRanks::compare(). Does nothing if `group` is null.
void compare_data(RankGroup* group, const Dataset& train, const Dataset* validation);

/// Calls RankGroup::begin() for a part of this node, such as "step 3". Does nothing if there is
/// only one rank.
void begin_part(const std::string& part, const runner::RunContext& context);

/// True if `error` means that another rank has exited.
bool is_rank_lost(const std::exception& error);

}  // namespace stages
