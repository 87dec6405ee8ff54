#pragma once

#include <string>

#include "runner/shared/stage/run_context.h"
#include "stages/train/training_checkpoints.h"
#include "stages/train/training_ranks.h"

namespace stages {

/// Saves checkpoints and ends training when the run is asked to.
class TrainingRequests {
 public:
  /// `execution` is that of the training run. All arguments are borrowed.
  TrainingRequests(const StepExecution& execution, const TrainingRanks& ranks,
                   TrainingCheckpoints& checkpoints, runner::RunContext& context)
      : execution_(execution), ranks_(ranks), checkpoints_(checkpoints), context_(context) {}

  /// True if the ranks can only save together.
  bool are_of_all() const { return execution_.plan().shards_optimizer(); }

  /// Saves if that is due or requested. Throws runner::Canceled, after saving, if the run is asked
  /// to stop. Call this between two steps, unless are_of_all() is true.
  void handle(const TrainingPosition& done);
  /// Like handle(), if are_of_all() is true: each rank keeps a part of the state, so if one rank is
  /// asked to stop or save, all of them do. Every rank calls this after the same step.
  void handle_of_all(const TrainingPosition& done);
  /// Saves and throws runner::Canceled.
  [[noreturn]] void stop(const TrainingPosition& done);

  /// Saves after a failure in a step that has written nothing, or during validation, and says so.
  /// `before_what` names the failure.
  void save_after_failure(const TrainingPosition& done, const std::string& before_what);

 private:
  const StepExecution& execution_;
  const TrainingRanks& ranks_;
  TrainingCheckpoints& checkpoints_;
  runner::RunContext& context_;
};

}  // namespace stages
