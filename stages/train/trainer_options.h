#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/train/gradient_clip.h"
#include "stages/train/optimizer.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/schedule.h"
#include "stages/train/swa.h"
#include "stages/train/weight_average.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// When to save a training run, other than at its end, at a stop and after a new best validation.
/// Whichever limit is reached first applies; nullopt: no such limit.
struct SaveRule {
  std::optional<std::int64_t> steps, epochs;
  std::optional<double> minutes;
  bool operator==(const SaveRule&) const = default;
};

/// The option `checkpoint` of a training stage.
struct SaveOptions {
  SaveRule every;
  std::int64_t keep_last = 1;  ///< number of newest checkpoints to keep, 1 or more
  std::int64_t keep_best = 0;  ///< number of checkpoints with the best metric to keep
  bool operator==(const SaveOptions&) const = default;
};

/// Reads common.schema.json#/definitions/checkpoint.
SaveOptions read_save_options(runner::ConfigReader& reader);

/// Returns the current time of a monotonic clock.
double steady_seconds();

/// Determines when to save, based on the time of the last save.
class SaveClock {
 public:
  /// `seconds` is the current time of a monotonic clock.
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

/// Which weights training ends with. kAuto: the best if there is validation data, otherwise the
/// last.
enum class Keep { kAuto, kBest, kLast };

/// A part of the network that is trained alone in the first epochs.
struct PartTrainedFirst {
  std::int64_t epochs = 0;
  std::string pattern = {};  ///< a pattern for matches_parameter()
  bool operator==(const PartTrainedFirst&) const = default;
};

/// The recipe's options for the course of training, independent of what is trained.
struct TrainerOptions {
  std::int64_t epochs = 0;
  std::int64_t batch_size = 0;              ///< samples per optimizer step
  std::string batch_option = "batch_size";  ///< the option that sets batch_size
  OptimizerOptions optimizer;
  std::vector<ParameterGroupOptions>
      parameter_groups;               ///< parts of the model with their own optimizer options
  std::optional<double> layer_decay;  ///< factor for the learning rate from each layer to the one
                                      ///< before it
  std::vector<NetworkPart> towers;    ///< parts with their own layers; empty: a single sequence of
                                      ///< layers
  Schedule schedule;
  PartTrainedFirst trained_first = {};
  std::optional<double> gradient_clip_norm;
  std::optional<double> gradient_clip_value;  ///< at most one of the three limits is set
  std::optional<AdaptiveClip> adaptive_gradient_clip;
  std::optional<WeightAverageOptions> average;  ///< average of the weights, by `ema` or `swa`
  std::optional<SwaOptions> swa;                ///< set by `swa`: when the weights are averaged
  std::int64_t average_best = 0;                ///< number of epochs to average at the end; 0: none
  std::int64_t validate_every = 1;              ///< epochs; the last epoch is always validated
  std::optional<std::int64_t>
      patience;  ///< stop after this many consecutive validations without improvement
  std::optional<double> enough_accuracy;  ///< stop at this validation accuracy
  double minimum_improvement = 0;         ///< smaller validation improvements do not count
  std::string monitor;  ///< what determines the best epoch: "loss" or one of the step's scores
  bool higher_is_better = false;
  Keep keep = Keep::kAuto;
  SaveOptions checkpoint;
  std::string accumulated_by;  ///< the stage with the gradient_accumulation_steps that split the
                               ///< batch, "/train"; empty: none
  std::optional<std::int64_t> accumulated_micro_batch;  ///< the micro-batch size that they declare
  std::int64_t log_every = 1;                           ///< steps
  std::int64_t log_gradients_every = 0;  ///< steps between two histograms of a gradient; 0: none
  std::string model_stage =
      "model";               ///< the name of the network's stage, as used in memory.precision
  bool begins_anew = false;  ///< do not resume from earlier checkpoints
  std::optional<std::int64_t> planned_live;    ///< live bytes from plan_training()
  std::optional<std::int64_t> planned_needed;  ///< needed bytes from plan_training()
  bool operator==(const TrainerOptions&) const = default;
};

/// Reads the options that all kinds of training share, as defined in
/// schemas/train/supervised.schema.json; reports contradictions as errors of `reader`. The recipe
/// may monitor the loss or one of `scores`, for which a higher value is better; if
/// `higher_is_better` is given, it may monitor anything. `batch_option` is the name of the option
/// for the batch size. `parts` can have learning rate factors.
TrainerOptions read_trainer_options(runner::ConfigReader& reader,
                                    std::span<const std::string_view> scores,
                                    std::string_view batch_option,
                                    const std::vector<NetworkPart>& parts,
                                    std::optional<bool> higher_is_better = {});

/// Returns the options for a dry run, in which a few steps do everything that any step of the
/// training run may do.
TrainerOptions options_of_dry_run(TrainerOptions options);

/// Returns messages for the user about option combinations with unexpected effects.
std::vector<std::string> notes_of(const TrainerOptions& options);

/// Throws runner::StageError, kOptionConflict, if an option needs validation data. Call this if
/// there is none.
void check_without_validation(const TrainerOptions& options);

/// Reads a mapping as defined in schemas/train/schedule/.
Schedule read_schedule(runner::ConfigReader& reader);

}  // namespace stages
