#include "stages/train/step_snapshot.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace stages {

StepSnapshot::StepSnapshot(torch::nn::Module& network, at::Device device)
    : network_(&network), device_(device), generators_(generator_states(device)) {
  const torch::NoGradGuard no_graph;
  for (const at::Tensor& buffer : network.buffers()) buffers_.emplace_back(buffer, buffer.clone());
}

void StepSnapshot::save(const std::optional<at::Tensor>& failed) {
  const torch::NoGradGuard no_graph;
  const at::Tensor has_failed = failed ? failed->to(torch::kBool) : at::Tensor();
  generators_ = generator_states(device_);
  for (auto& [own, copy] : buffers_) {
    if (own.sizes() != copy.sizes() || own.device() != copy.device()) copy = own.clone();
    else if (failed) at::where_out(copy, has_failed, copy, own);
    else copy.copy_(own);
  }
}

void StepSnapshot::restore(const GeneratorStates& generators) const {
  const torch::NoGradGuard no_graph;
  network_->zero_grad();
  for (const auto& [own, copy] : buffers_) own.copy_(copy);
  set_generator_states(generators);
}

std::int64_t StepSnapshot::generator_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [device, state] : generators_) bytes += state.nbytes();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace stages
