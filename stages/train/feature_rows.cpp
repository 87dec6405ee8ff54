#include "stages/train/feature_rows.h"

#include <algorithm>
#include <optional>
#include <string>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_context.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

}  // namespace

std::int64_t feature_width(const DatasetDescription& data) {
  const auto found = std::ranges::find(data.tensors, "features", &TensorSpec::name);
  if (found != data.tensors.end() && found->shape.size() == 1) return found->shape[0];
  throw StageError(ErrorCode::kOptionConflict,
                   "the training data has no features, one row of numbers for each image")
      .with_help(
          "connect it to a data.features stage with cache: true, and do not augment the images");
}

FeatureRows read_feature_rows(const Dataset& train, const Dataset* validation, at::ScalarType type,
                              const runner::RunContext& context) {
  const DatasetDescription data = train.describe();
  const std::int64_t classes = logits_for(data);
  const std::int64_t all = data.size + (validation ? validation->describe().size : 0);
  FeatureRows rows{.features = torch::empty({all, feature_width(data)}, type),
                   .labels = torch::empty({all}, at::kLong)};
  std::int64_t count = 0;
  const auto add = [&](const Dataset& dataset) {
    for (std::int64_t index = 0, size = dataset.describe().size; index < size; ++index) {
      if (context.canceled()) throw runner::Canceled{};
      const std::optional<NamedTensors> sample = dataset.sample(/*epoch=*/0, index);
      if (!sample) continue;
      const auto label = sample->at("label").item<std::int64_t>();
      if (label < 0 || label >= classes)
        throw StageError(ErrorCode::kLabelOutOfRange, "'" + dataset.sample_name(index) +
                                                          "' has the label " +
                                                          std::to_string(label) + ", outside the " +
                                                          std::to_string(classes) + " classes");
      rows.features[count].copy_(sample->at("features"));
      rows.labels[count++].fill_(label);
    }
  };
  add(train);
  rows.trained = count;
  if (validation) add(*validation);
  if (rows.trained == 0)
    throw StageError(ErrorCode::kTooFewSamples, "no sample of the training data could be read");
  rows.features = rows.features.narrow(0, 0, count);
  rows.labels = rows.labels.narrow(0, 0, count);
  return rows;
}

}  // namespace stages
