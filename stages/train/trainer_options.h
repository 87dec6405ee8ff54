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

/// When a training is saved, besides at its end, when it is stopped, and where it is better than
/// ever. Whichever comes first counts; nullopt: not by that.
struct SaveRule {
  std::optional<std::int64_t> steps, epochs;
  std::optional<double> minutes;
  bool operator==(const SaveRule&) const = default;
};

/// The option `checkpoint` of a training.
struct SaveOptions {
  SaveRule every;
  std::int64_t keep_last = 1;  ///< of the newest checkpoints, 1 or more
  std::int64_t keep_best = 0;  ///< of those with the best metric
  bool operator==(const SaveOptions&) const = default;
};

/// Reads common.schema.json#/definitions/checkpoint.
SaveOptions read_save_options(runner::ConfigReader& reader);

/// Now, on a clock that only goes forward.
double steady_seconds();

/// Remembers when it was saved last.
class SaveClock {
 public:
  /// `seconds`: now, on a clock that only goes forward.
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

/// Which weights a training ends with. kAuto: the best where there is validation data, else the
/// last.
enum class Keep { kAuto, kBest, kLast };

/// A part of the network that is trained alone in the first epochs.
struct PartTrainedFirst {
  std::int64_t epochs = 0;
  std::string pattern = {};  ///< parameter_pattern.h
  bool operator==(const PartTrainedFirst&) const = default;
};

/// What a recipe says about the course of a training, whatever is trained.
struct TrainerOptions {
  std::int64_t epochs = 0;
  std::int64_t batch_size = 0;              ///< the logical batch
  std::string batch_option = "batch_size";  ///< where the recipe says it
  OptimizerOptions optimizer;
  std::vector<ParameterGroupOptions>
      parameter_groups;  ///< parts of the model that follow it otherwise
  Schedule schedule;
  PartTrainedFirst trained_first = {};
  std::optional<double> gradient_clip_norm;
  std::optional<WeightAverageOptions> average;  ///< of the weights
  std::int64_t validate_every = 1;              ///< epochs; the last epoch is always validated
  std::optional<std::int64_t>
      patience;  ///< validations in a row without a better one after which to stop
  std::optional<double> enough_accuracy;  ///< of a validation, at which to stop
  double minimum_improvement = 0;         ///< of a validation, below which it is not better
  std::string monitor;  ///< what says which epoch is best: "loss" or one of the step's scores
  bool higher_is_better = false;
  Keep keep = Keep::kAuto;
  SaveOptions checkpoint;
  std::string accumulated_by;  ///< the stage whose gradient_accumulation_steps cut the batch,
                               ///< "/train"; empty: none
  std::optional<std::int64_t> accumulated_micro_batch;  ///< the cut that it declares
  std::int64_t log_every = 1;                           ///< steps
  std::string model_stage =
      "model";               ///< the stage that makes the network, as memory.precision names it
  bool begins_anew = false;  ///< whatever was saved before is not resumed
  std::optional<std::int64_t> planned_peak;  ///< bytes in tensors, as plan_training() predicts them
  std::optional<std::int64_t> planned_need;  ///< bytes of the device in all, likewise
  bool operator==(const TrainerOptions&) const = default;
};

/// Reads the options that every kind of training has, as schemas/train/supervised.schema.json says
/// them; contradictions become errors of `reader`. `scores` may be monitored beside the loss;
/// `batch_option` says the logical batch; `parts` have factors of the learning rate.
TrainerOptions read_trainer_options(runner::ConfigReader& reader,
                                    std::span<const std::string_view> scores,
                                    std::string_view batch_option,
                                    const std::vector<NetworkPart>& parts);

/// Lines for the person who watches, about options that do together what few expect.
std::vector<std::string> notes_of(const TrainerOptions& options);

/// Throws runner::StageError, kOptionConflict, where an option is about validation data and there
/// is none.
void check_without_validation(const TrainerOptions& options);

/// Reads a mapping of schemas/train/schedule/.
Schedule read_schedule(runner::ConfigReader& reader);

}  // namespace stages
