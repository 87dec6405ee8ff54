#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

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

/// The progress of training.
struct TrainingPosition {
  std::int64_t steps = 0;    ///< completed steps
  std::int64_t epochs = 0;   ///< completed epochs
  std::int64_t batches = 0;  ///< completed batches of the current epoch
  bool operator==(const TrainingPosition&) const = default;
};

/// The parts of training that have state to save; all are borrowed.
struct TrainingParts {
  StepExecution& execution;
  StepRecovery& recovery;
  LearningRates& learning_rates;
  EarlyStopping& stopping;
  PendingSteps& steps;
};

/// The checkpoints of a running training stage: when they are due, what they contain, and how to
/// resume from one.
class TrainingCheckpoints {
 public:
  /// `data` describes the training data. The checkpoints are in the node's folder. All arguments
  /// are borrowed.
  TrainingCheckpoints(TrainingParts parts, const DatasetDescription& data,
                      const TrainerOptions& options, runner::RunContext& context);

  // A save or load that runs out of memory is retried once, if the policy allows a retry.

  // Rank 0 saves. If the optimizer state is sharded across the ranks, all ranks must call save() at
  // the same position; the others send their parts of the state.

  bool is_due(const TrainingPosition& position) const;
  bool is_due_after_epoch(const TrainingPosition& position) const;

  /// Saves everything, unless this position has just been saved. `metric` and `validation` are the
  /// scores of the weights, if they were measured at this position.
  void save(const TrainingPosition& position, std::optional<double> metric = {},
            const std::optional<Means>& validation = {});

  /// Restores the parts from the latest checkpoint; returns nullopt if there is none. Throws
  /// runner::StageError, kChangedRun, if the checkpoint does not match or has completed more than
  /// `epochs` epochs.
  std::optional<TrainingPosition> resume(std::int64_t epochs);

  /// The weights from the best epochs.
  struct BestEpochs {
    std::vector<std::int64_t> epochs;  ///< sorted from the best to the worst
    double metric = 0;                 ///< of the best
  };
  /// Averages the weights from the options.average_best epochs with the best validations, with
  /// equal shares, and loads the average into the network (Wortsman et al. 2022, arXiv:2203.05482).
  /// Loads nothing and returns no epochs if fewer than two have been saved.
  BestEpochs load_average();
  /// If `metric`, measured with the average of these epochs, is better than in the best epoch,
  /// saves the network's weights as the average, which then becomes the best checkpoint. Reports
  /// which one is kept.
  void keep_better(const TrainingPosition& position, const BestEpochs& averaged, double metric,
                   const Means& validation);

  /// Loads the weights that options.keep selects into the network, and returns which weights they
  /// are. Loads nothing if the parameters are sharded.
  TrainingResult keep(const TrainingPosition& position);

 private:
  TrainingState state(const TrainingPosition& position, const std::optional<double>& metric,
                      std::int64_t metrics) const;
  TrainingPosition restore(const TrainingState& state);
  void save_average(const TrainingPosition& position, const BestEpochs& averaged, double metric,
                    const Means& validation);
  void save_for_all(const TrainingPosition& position, const std::optional<double>& metric);
  std::set<std::string> weights_elsewhere() const;
  bool is_state_divided() const { return parts_.execution.plan().shards_optimizer(); }
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
  bool has_other_weights_ = false;         // the network has neither trained nor kept weights
  std::string saved_validation_;  // validation_text() of that checkpoint; empty: not measured
};

}  // namespace stages
