#include "stages/train/step_snapshot.h"

#include <mutex>

#include <torch/torch.h>

namespace stages {
namespace {

at::Generator generator_of(at::Device device) { return at::globalContext().defaultGenerator(device); }

}  // namespace

StepSnapshot::StepSnapshot(torch::nn::Module& network, at::Device device) : network_(&network) {
  const torch::NoGradGuard no_graph;
  std::vector<at::Device> devices = {at::kCPU};
  if (!device.is_cpu()) devices.push_back(device);
  for (const at::Device each : devices) {
    at::Generator generator = generator_of(each);
    const std::lock_guard lock(generator.mutex());
    generators_.emplace_back(each, generator.get_state());
  }
  for (const at::Tensor& buffer : network.buffers()) buffers_.emplace_back(buffer, buffer.clone());
}

void StepSnapshot::restore() const {
  const torch::NoGradGuard no_graph;
  network_->zero_grad();
  for (const auto& [own, copy] : buffers_) own.copy_(copy);
  for (const auto& [device, state] : generators_) {
    at::Generator generator = generator_of(device);
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

}  // namespace stages
