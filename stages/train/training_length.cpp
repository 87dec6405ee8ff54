#include "stages/train/training_length.h"

#include "runner/shared/stage/stage.h"
#include "stages/train/schedule.h"
#include "stages/train/step_plan.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

std::int64_t steps_per_epoch(std::int64_t size, bool drops_last, const TrainerOptions& options) {
  const std::int64_t batch_size = options.batch_size;
  const std::int64_t whole = size / batch_size;
  const std::int64_t steps = size % batch_size != 0 && !drops_last ? whole + 1 : whole;
  if (steps > 0) return steps;
  throw StageError(ErrorCode::kTooFewSamples, "the training data has " + std::to_string(size) +
                                                  " samples, which make no batch of " + std::to_string(batch_size))
      .at("/" + options.batch_option)
      .with_help(size == 0   ? ""
                 : size == 1 ? "give it more samples"
                             : "lower " + options.batch_option + ", or set drop_last: false");
}

}  // namespace

LoaderOptions training_loader(const Dataset& train, const TrainingStep& step, std::int64_t batch_size) {
  LoaderOptions options = train.loader();
  const std::int64_t rest = train.describe().size % batch_size;
  options.drop_last |= rest > 0 && rest < least_units(step);
  return options;
}

std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options) {
  const std::int64_t steps = options.epochs * steps_per_epoch(size, drops_last, options);
  check_length(options.schedule, steps);
  return steps;
}

}  // namespace stages
