#include "stages/train/validation.h"

#include <algorithm>
#include <vector>

#include <torch/torch.h>

#include "runner/stage/stage.h"
#include "stages/artifact/loader.h"
#include "stages/trace/repetition.h"
#include "stages/train/encoded_parts.h"
#include "stages/train/step_error.h"

namespace stages {
namespace {

NamedTensors encode(const TrainingStep& step, torch::nn::Module& network, const Batch& batch,
                    std::int64_t micro_batch) {
  if (micro_batch == 0 || micro_batch >= batch.units()) return step.encode(network, batch);
  EncodedParts parts;
  Repetition repetition;
  for (std::int64_t begin = 0; begin < batch.units(); begin += micro_batch) {
    const std::int64_t end = std::min(begin + micro_batch, batch.units());
    parts.add(repetition.next(end - begin, [&] { return step.encode(network, batch.part(begin, end)); }));
  }
  return parts.join();
}

}  // namespace

std::int64_t validation_batch_size(const StepPlan& plan, std::int64_t batch_size) {
  const bool is_cut = plan.micro_batch > 0 && !plan.two_pass;
  return is_cut ? plan.micro_batch : batch_size;
}

StepNumbers measure(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
                    const StepPlan& plan) {
  StepNumbers numbers(step.weight(batch), batch.units());
  const Batch placed = network.placed(batch);
  const ScopedInference inference(network);
  const NamedTensors encoded = taken_in(network.precision(), encode(step, network.module(), placed, plan.micro_batch));
  numbers.add(numbers.row(step.loss(encoded, placed), step.score(encoded, placed)));
  numbers.fetch();
  return numbers;
}

Means validate(const TrainingStep& step, const PreparedNetwork& network, std::shared_ptr<const Dataset> dataset,
               const ValidationOptions& options) {
  Loader loader(dataset, sequential_order(dataset->describe().size),
                validation_batch_size(options.plan, options.batch_size), options.epoch);
  const std::int64_t batches = std::min(loader.batches(), options.batches.value_or(loader.batches()));
  std::vector<StepNumbers> measured;  // read at the end, so that a GPU is never waited for between batches
  while (static_cast<std::int64_t>(measured.size()) < batches) {
    if (options.before_batch) options.before_batch(static_cast<std::int64_t>(measured.size()) + 1, batches);
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    refuse_bad_unit(step, *dataset, *batch);
    measured.push_back(measure(step, network, *batch, options.plan));
  }
  if (measured.empty()) {
    throw runner::StageError(runner::ErrorCode::kTooFewSamples, "no sample of the validation data could be read");
  }
  Means means;
  for (const StepNumbers& numbers : measured) means.add(numbers.means());
  return means;
}

}  // namespace stages
