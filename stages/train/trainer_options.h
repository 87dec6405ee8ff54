#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/train/optimizer.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/schedule.h"
#include "stages/train/weight_average.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// When a training is saved, in addition to its end, a stop, and a new best validation. Whichever
/// limit comes first applies; nullopt: no such limit.
struct SaveRule {
  std::optional<std::int64_t> steps, epochs;
  std::optional<double> minutes;
  bool operator==(const SaveRule&) const = default;
};

/// The option `checkpoint` of a training.
struct SaveOptions {
  SaveRule every;
  std::int64_t keep_last = 1;  ///< number of newest checkpoints to keep, 1 or more
  std::int64_t keep_best = 0;  ///< number of checkpoints with the best metric to keep
  bool operator==(const SaveOptions&) const = default;
};

/// Reads common.schema.json#/definitions/checkpoint.
SaveOptions read_save_options(runner::ConfigReader& reader);

/// The current time of a monotonic clock.
double steady_seconds();

/// Remembers the time of the last save.
class SaveClock {
 public:
  /// `seconds`: the current time of a monotonic clock.
  SaveClock(SaveRule rule, double seconds) : rule_(rule), seconds_(seconds) {}

  bool is_due(std::int64_t step, double seconds) const {
    return (rule_.steps && step - step_ >= *rule_.steps) ||
           (rule_.minutes && seconds - seconds_ >= 60 * *rule_.minutes);
  }
  bool is_due_after_epoch(std::int64_t epoch) const {
    return rule_.epochs && epoch % *rule_.epochs == 0;
  }
  void saved(std::int64_t step, double seconds) {
    step_ = step;
    seconds_ = seconds;
  }

 private:
  const SaveRule rule_;
  std::int64_t step_ = 0;
  double seconds_;
};

/// Which weights a training ends with. kAuto: the best if there is validation data, else the last.
enum class Keep { kAuto, kBest, kLast };

/// A part of the network that is trained alone in the first epochs.
struct PartTrainedFirst {
  std::int64_t epochs = 0;
  std::string pattern = {};  ///< a pattern: matches_parameter()
  bool operator==(const PartTrainedFirst&) const = default;
};

/// The recipe's options for the course of a training, whatever is trained.
struct TrainerOptions {
  std::int64_t epochs = 0;
  std::int64_t batch_size = 0;              ///< of the logical batch
  std::string batch_option = "batch_size";  ///< the option that sets it
  OptimizerOptions optimizer;
  std::vector<ParameterGroupOptions>
      parameter_groups;  ///< parts of the model with other optimizer options
  Schedule schedule;
  PartTrainedFirst trained_first = {};
  std::optional<double> gradient_clip_norm;
  std::optional<WeightAverageOptions> average;  ///< of the weights
  std::int64_t validate_every = 1;              ///< epochs; the last epoch is always validated
  std::optional<std::int64_t>
      patience;  ///< stop after this many validations in a row without improvement
  std::optional<double> enough_accuracy;  ///< stop at this validation accuracy
  double minimum_improvement = 0;         ///< of a validation; smaller improvements do not count
  std::string monitor;  ///< what decides which epoch is best: "loss" or one of the step's scores
  bool higher_is_better = false;
  Keep keep = Keep::kAuto;
  SaveOptions checkpoint;
  std::string accumulated_by;  ///< the stage whose gradient_accumulation_steps split the batch,
                               ///< "/train"; empty: none
  std::optional<std::int64_t> accumulated_micro_batch;  ///< the micro-batch that it declares
  std::int64_t log_every = 1;                           ///< steps
  std::string model_stage =
      "model";               ///< the stage that makes the network, as memory.precision names it
  bool begins_anew = false;  ///< do not resume anything that was saved before
  std::optional<std::int64_t> planned_live;    ///< live bytes, by plan_training()
  std::optional<std::int64_t> planned_needed;  ///< needed bytes, by plan_training()
  bool operator==(const TrainerOptions&) const = default;
};

/// Reads the options that every kind of training has, as defined in
/// schemas/train/supervised.schema.json; contradictions become errors of `reader`. `scores` may be
/// monitored in addition to the loss, where a higher value is better, or anything for which
/// `higher_is_better` is given; `batch_option` names the option for the logical batch; `parts` can
/// have learning rate factors.
TrainerOptions read_trainer_options(runner::ConfigReader& reader,
                                    std::span<const std::string_view> scores,
                                    std::string_view batch_option,
                                    const std::vector<NetworkPart>& parts,
                                    std::optional<bool> higher_is_better = {});

/// Messages for the user about option combinations with unexpected effects.
std::vector<std::string> notes_of(const TrainerOptions& options);

/// Throws runner::StageError, kOptionConflict, if an option concerns validation data and there is
/// none.
void check_without_validation(const TrainerOptions& options);

/// Reads a mapping of schemas/train/schedule/.
Schedule read_schedule(runner::ConfigReader& reader);

}  // namespace stages
