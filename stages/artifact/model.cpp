#include "stages/artifact/model.h"

#include <torch/types.h>

namespace stages {

DatasetDescription Checkpoint::trained_on(std::int64_t size) const {
  return {
      .size = size, .tensors = inputs, .classes = classes, .pair_of = pair_of, .ordinal = ordinal};
}

void Checkpoint::describe(const DatasetDescription& data) {
  classes = data.classes;
  class_words = words_of(data);
  pair_of = data.pair_of;
  ordinal = data.ordinal;
  targets = data.targets;
  inputs = data.tensors;
  transform = data.transform;
}

runner::HeldMemory Checkpoint::held() const {
  std::size_t bytes = 0;
  if (network) {
    for (const at::Tensor& parameter : network->parameters()) bytes += parameter.nbytes();
    for (const at::Tensor& buffer : network->buffers()) bytes += buffer.nbytes();
  }
  return {.on_device = static_cast<std::int64_t>(bytes)};
}

}  // namespace stages
