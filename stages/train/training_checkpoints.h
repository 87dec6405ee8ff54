#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "stages/artifact/dataset.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/train/early_stopping.h"
#include "stages/train/pending_steps.h"
#include "stages/train/schedule.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_recovery.h"
#include "stages/train/trainer.h"

namespace runner {
class RunContext;
}

namespace stages {

/// The progress of a training.
struct TrainingPosition {
  std::int64_t steps = 0;    ///< completed
  std::int64_t epochs = 0;   ///< completed
  std::int64_t batches = 0;  ///< completed in the current epoch
  bool operator==(const TrainingPosition&) const = default;
};

/// The parts of a training whose state is saved; all are borrowed.
struct TrainingParts {
  StepExecution& execution;
  StepRecovery& recovery;
  LearningRates& learning_rates;
  EarlyStopping& stopping;
  PendingSteps& steps;
};

/// The checkpoints of a running training: when they are due, what they contain, and how to resume
/// from one.
class TrainingCheckpoints {
 public:
  /// `data` describes the training data; the checkpoints are in the node's folder. All arguments
  /// are borrowed.
  TrainingCheckpoints(TrainingParts parts, const DatasetDescription& data,
                      const TrainerOptions& options, runner::RunContext& context);

  // A save or load that runs out of memory is repeated once, if the policy allows a retry.

  // Rank 0 saves. If the optimizer's state is divided among the ranks, save() is called by all of
  // them at the same position, and the others send what they keep.

  bool is_due(const TrainingPosition& position) const;
  bool is_due_after_epoch(const TrainingPosition& position) const;

  /// Saves everything, unless that has just been done. `metric` rates the weights, if they were
  /// measured here, by `validation`.
  void save(const TrainingPosition& position, std::optional<double> metric = {},
            const std::optional<Means>& validation = {});

  /// Restores the parts from the latest checkpoint; nullopt if there is none yet. Throws
  /// runner::StageError, kChangedRun, for a checkpoint that does not fit.
  std::optional<TrainingPosition> resume();

  /// Loads into the network the weights that the options keep, and reports which they are.
  TrainingResult keep(const TrainingPosition& position);

 private:
  TrainingState state(const TrainingPosition& position, const std::optional<double>& metric,
                      std::int64_t metrics) const;
  TrainingPosition restore(const TrainingState& state);
  void save_for_all(const TrainingPosition& position, const std::optional<double>& metric);
  bool is_state_divided() const { return parts_.execution.plan().shards_optimizer; }
  NamedTensors optimizer_state() const;
  at::Tensor brought(const NamedTensors::Item& item) const;
  void send_part() const;
  void retry(const std::string& what, const std::function<void()>& work);
  torch::nn::Module& network() const { return parts_.execution.network().module(); }
  c10::Device network_device() const { return parts_.execution.network().device(); }

  const TrainingParts parts_;
  const DatasetDescription& data_;
  const TrainerOptions& options_;
  runner::RunContext& context_;
  Checkpoints checkpoints_;
  SaveClock clock_;
  std::filesystem::path saved_folder_;     // the latest checkpoint
  std::optional<TrainingPosition> saved_;  // position of that checkpoint
  std::string saved_validation_;  // its validation, as validation_text(); empty: not measured there
};

}  // namespace stages
