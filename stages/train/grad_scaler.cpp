#include "stages/train/grad_scaler.h"

#include <stdexcept>
#include <string>
#include <utility>

#include <torch/types.h>
#include <torch/utils.h>

namespace stages {

GradScaler::GradScaler(Options options, at::Device device)
    : options_(options),
      scale_(torch::full({}, options.initial_scale,
                         torch::TensorOptions(torch::kFloat).device(device))),
      growth_tracker_(torch::zeros({}, torch::TensorOptions(torch::kInt).device(device))) {}

at::Tensor GradScaler::unscale(const std::vector<at::Tensor>& gradients) const {
  const torch::NoGradGuard no_graph;
  at::Tensor overflow = torch::zeros({}, scale_.options());
  // As in torch.amp, the reciprocal is computed in double, so dividing by a power of two is exact.
  const at::Tensor inverse = scale_.to(torch::kDouble).reciprocal().to(torch::kFloat);
  if (!gradients.empty())
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow, inverse);
  return overflow;
}

void GradScaler::update(const at::Tensor& overflow) {
  const torch::NoGradGuard no_graph;
  at::_amp_update_scale_(scale_, growth_tracker_, overflow, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
}

NamedTensors GradScaler::state() const {
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

void GradScaler::load_state(const NamedTensors& state) {
  const torch::NoGradGuard no_graph;
  for (auto& [name, tensor] : {std::pair<const char*, at::Tensor&>{"scale", scale_},
                               {"growth_tracker", growth_tracker_}}) {
    if (!state.contains(name) || state.at(name).numel() != 1 ||
        state.at(name).scalar_type() != tensor.scalar_type())
      throw std::invalid_argument(std::string("a scaler's state has no ") + name);
    tensor.copy_(state.at(name).reshape({}));
  }
}

}  // namespace stages
