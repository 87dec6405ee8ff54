#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stages/train/schedule.h"

namespace runner {
class ConfigReader;
class RunContext;
}  // namespace runner
namespace torch::nn {
class Module;
}

namespace stages {

class RetriedLoader;
class StepExecution;
class TrainingStep;
struct StepKey;

/// Stochastic weight averaging (Izmailov et al. 2018, arXiv:1803.05407) as torch.optim.swa_utils
/// defines it: the weights at the ends of the last epochs are averaged.
struct SwaOptions {
  std::int64_t start = 0;               ///< number of epochs before the first averaged one
  std::optional<double> learning_rate;  ///< nullopt: the schedule continues
  std::int64_t anneal_epochs = 0;
  Anneal anneal = Anneal::kCosine;
  bool operator==(const SwaOptions&) const = default;
};

/// Reads the option `swa` for a training run of `epochs` epochs; returns nullopt if it is null.
std::optional<SwaOptions> read_swa(runner::ConfigReader& reader, std::int64_t epochs);

/// Returns the learning rates of the averaged epochs, for a training run of `steps` steps in
/// `epochs` epochs with the optimizer's `learning_rate`; nullopt if the schedule continues.
std::optional<SwaSchedule> swa_schedule(const std::optional<SwaOptions>& swa, double learning_rate,
                                        std::int64_t steps, std::int64_t epochs);

/// An epoch to include in the average of the weights; everything is borrowed.
struct EpochToAverage {
  const TrainingStep& step;
  StepExecution& execution;
  std::int64_t number = 1;      ///< position among the averaged epochs, 1-based
  RetriedLoader& samples;       ///< the training samples
  const StepKey& key;           ///< key of the epoch's last step
  runner::RunContext& context;  ///< reports progress and can stop the pass
  bool can_stop = true;
};

/// Includes the current weights in the average. If the network collects running statistics, they
/// are recomputed for the average by a pass over the samples in training mode, with the training
/// batch size: torch.optim.swa_utils.update_bn. Can be repeated if it fails or is stopped. Throws
/// runner::Canceled.
void average_epoch(const EpochToAverage& epoch);

/// Recomputes the running statistics for the network's current weights, if it collects any, as
/// average_epoch() does for the average. `epoch.number` is not used.
void renew_statistics(const EpochToAverage& epoch);

/// Throws runner::StageError, kOptionConflict, at `option` ("swa") if averaging would leave the
/// network's running statistics stale: those kept by Python code cannot be recomputed.
void refuse_unknown_statistics(const torch::nn::Module& network, const std::string& option);

/// Throws std::invalid_argument if training cannot have averaged `averaged` epochs after `epochs`
/// epochs and `batches` batches.
void check_averaged(const SwaOptions& swa, std::int64_t averaged, std::int64_t epochs,
                    std::int64_t batches);

}  // namespace stages
