#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/loader.h"
#include "stages/train/trainer.h"

namespace stages {

/// What a training has to agree on with the other ranks of its run. Does nothing if there are none.
class TrainingRanks {
 public:
  /// All arguments are borrowed.
  TrainingRanks(const TrainingStep& step, const TrainingData& data, runner::RunContext& context)
      : step_(step), data_(data), context_(context) {}

  /// All ranks have to continue after the same step, with the same data. Throws runner::StageError,
  /// kNoMeeting, on each rank that differs from the first.
  void compare(std::int64_t steps_done) const;

  /// How this rank reads a pass over the training data. In the first epoch rank 0 reports the
  /// remarks on all samples, so it reads them all if there may be any.
  PartialReading reading(bool is_first_epoch) const;

  /// What a rank is asked to do between two steps.
  enum class Request : std::int64_t { kNothing, kSave, kStop };
  /// The most that any rank is asked to do.
  Request agreed(Request own) const;
  /// Waits until the rank that was asked to stop has ended. Throws runner::Cancelled if this one
  /// has been asked too, since a launcher asks one after the other, else runner::StageError,
  /// kRankLost.
  [[noreturn]] void end_after_others() const;

 private:
  const TrainingStep& step_;
  const TrainingData& data_;
  runner::RunContext& context_;
};

}  // namespace stages
