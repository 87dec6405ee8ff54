#include "stages/plan/real_samples.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "stages/artifact/loader.h"

namespace stages {
namespace {

Batch joined(const std::vector<Batch>& batches) {
  NamedTensors tensors;
  std::int64_t units = 0;
  std::vector<std::int64_t> indices;
  for (const Batch& batch : batches) {
    units += batch.units();
    indices.insert(indices.end(), batch.indices.begin(), batch.indices.end());
  }
  for (const auto& [name, first] : batches.front().tensors()) {
    std::vector<at::Tensor> rows;
    for (const Batch& batch : batches) rows.push_back(batch[name]);
    tensors.set(name, torch::cat(rows));
  }
  Batch all(std::move(tensors), units);
  all.indices = std::move(indices);
  return all;
}

}  // namespace

Batch first_units(const std::shared_ptr<const Dataset>& data, const SampleOrder& order,
                  std::int64_t units, const std::function<void(const Batch&)>& check) {
  std::vector<Batch> batches;
  while (std::ssize(batches) < units) {
    const std::size_t before = batches.size();
    Loader loader(data, order, /*batch_size=*/1, /*epoch=*/0);
    while (std::ssize(batches) < units) {
      std::optional<Batch> batch = loader.next();
      if (!batch) break;
      if (check) check(*batch);
      batches.push_back(*std::move(batch));
    }
    if (batches.size() == before) {
      throw runner::StageError(runner::ErrorCode::kTooFewSamples,
                               "none of the samples could be read");
    }
  }
  return joined(batches);
}

Batch copied(const Batch& batch) {
  Batch copy = batch;
  for (const auto& [name, tensor] : batch.tensors()) copy = copy.with(name, tensor.clone());
  return copy;
}

}  // namespace stages
