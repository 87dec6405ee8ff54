#include "stages/train/step_snapshot.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace stages {

StepSnapshot::StepSnapshot(torch::nn::Module& network, at::Device device)
    : network_(&network), generators_(generator_states(device)) {
  const torch::NoGradGuard no_graph;
  for (const at::Tensor& buffer : network.buffers()) buffers_.emplace_back(buffer, buffer.clone());
}

void StepSnapshot::restore() const {
  const torch::NoGradGuard no_graph;
  network_->zero_grad();
  for (const auto& [own, copy] : buffers_) own.copy_(copy);
  set_generator_states(generators_);
}

std::int64_t StepSnapshot::generator_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [device, state] : generators_) bytes += state.nbytes();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace stages
