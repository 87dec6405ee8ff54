#include "stages/train/validation.h"

#include <algorithm>
#include <vector>

#include <torch/torch.h>

#include "runner/stage/stage.h"
#include "stages/artifact/loader.h"
#include "stages/numerics/precision_module.h"
#include "stages/tensor/scoped.h"
#include "stages/train/encoded_parts.h"
#include "stages/train/step_error.h"

namespace stages {
namespace {

NamedTensors encode(const TrainingStep& step, torch::nn::Module& network, const Batch& batch,
                    std::int64_t micro_batch) {
  if (micro_batch == 0 || micro_batch >= batch.units()) return step.encode(network, batch);
  EncodedParts parts;
  for (std::int64_t begin = 0; begin < batch.units(); begin += micro_batch)
    parts.add(step.encode(network, batch.part(begin, std::min(begin + micro_batch, batch.units()))));
  return parts.join();
}

}  // namespace

StepNumbers measure(const TrainingStep& step, torch::nn::Module& network, const Batch& batch, const Numerics& numerics,
                    std::int64_t micro_batch, double weight) {
  const ScopedPrecision precision(numerics.precision.base, batch.device());
  const NamedTensors encoded = taken_in(numerics.precision.base, encode(step, network, batch, micro_batch));
  StepNumbers numbers(weight);
  numbers.add(step.loss(encoded, batch), step.score(encoded, batch));
  numbers.fetch();
  return numbers;
}

Means validate(const TrainingStep& step, torch::nn::Module& network, std::shared_ptr<const Dataset> dataset,
               const ValidationOptions& options) {
  const ScopedEval eval(network);
  const torch::NoGradGuard no_graph;
  const ScopedPrecisionMap modules(network, options.numerics.precision, options.device);
  Loader loader(dataset, sequential_order(dataset->describe().size), options.batch_size, options.epoch);
  const std::int64_t batches = std::min(loader.batches(), options.batches.value_or(loader.batches()));
  std::vector<StepNumbers> measured;  // read at the end, so that a GPU is never waited for between batches
  while (static_cast<std::int64_t>(measured.size()) < batches) {
    if (options.before_batch) options.before_batch(static_cast<std::int64_t>(measured.size()) + 1, batches);
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    refuse_bad_unit(step, *dataset, *batch);
    measured.push_back(measure(step, network, in_layout(batch->to(options.device), options.numerics.layout),
                               options.numerics, options.micro_batch, step.weight(*batch)));
  }
  if (measured.empty()) {
    throw runner::StageError(runner::ErrorCode::kTooFewSamples, "no sample of the validation data could be read");
  }
  Means means;
  for (const StepNumbers& numbers : measured) means.add(numbers.means());
  return means;
}

}  // namespace stages
