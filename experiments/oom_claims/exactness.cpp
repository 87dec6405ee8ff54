#include "experiments/oom_claims/exactness.h"

#include <algorithm>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace oom_claims {

std::shared_ptr<ImageNetwork> double_network(const NetworkKind& kind) {
  auto network = kind.make(at::TensorOptions(torch::kDouble));
  draw_weights(*network, 1);
  network->train();
  return network;
}

stages::Batch random_images(std::int64_t samples) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  std::vector<at::Tensor> images;
  for (std::int64_t i = 0; i < samples; ++i)
    images.push_back(torch::randn({3, 8, 8}, generator, torch::kDouble));
  return stages::Batch(
      {{"image", torch::stack(images)}, {"label", torch::arange(samples).remainder(3)}}, samples);
}

at::Tensor taken_gradient(torch::nn::Module& network) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : network.parameters()) {
    const at::Tensor& gradient = parameter.grad();
    all.push_back((gradient.defined() ? gradient : torch::zeros_like(parameter)).flatten());
  }
  network.zero_grad();
  return torch::cat(all);
}

at::Tensor gradient(const stages::TrainingStep& step, torch::nn::Module& network,
                    const stages::Batch& batch, const stages::StepPlan& plan) {
  stages::accumulate_gradient(step, {network, plan.numerics, at::kCPU}, batch, step.weight(batch),
                              plan, {7, 1});
  return taken_gradient(network);
}

at::Tensor summed_means(const stages::TrainingStep& step, torch::nn::Module& network,
                        const stages::Batch& batch, std::int64_t size) {
  const std::int64_t parts = (batch.units() + size - 1) / size;
  for (std::int64_t begin = 0; begin < batch.units(); begin += size) {
    const stages::Batch part = batch.part(begin, std::min(begin + size, batch.units()));
    stages::accumulate_gradient(step, {network, {}, at::kCPU}, part,
                                step.weight(part) * static_cast<double>(parts), {}, {7, 1});
  }
  return taken_gradient(network);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

}  // namespace oom_claims
