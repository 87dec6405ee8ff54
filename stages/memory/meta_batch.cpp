#include "stages/memory/meta_batch.h"

#include <numeric>

#include <torch/torch.h>

namespace stages {

Batch meta_batch(const DatasetDescription& data, std::int64_t units) {
  NamedTensors tensors;
  for (const TensorSpec& spec : data.tensors) {
    std::vector<std::int64_t> shape = {units};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    tensors.set(spec.name, torch::empty(shape, torch::TensorOptions(spec.dtype).device(torch::kMeta)));
  }
  Batch batch(std::move(tensors), units);
  batch.indices.resize(static_cast<std::size_t>(units));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  return batch;
}

std::int64_t sample_bytes(const DatasetDescription& data) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : data.tensors) {
    std::int64_t elements = 1;
    for (const std::int64_t length : spec.shape) elements *= length;
    bytes += elements * static_cast<std::int64_t>(c10::elementSize(spec.dtype));
  }
  return bytes;
}

}  // namespace stages
