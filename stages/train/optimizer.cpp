#include "stages/train/optimizer.h"

#include <cassert>

#include <torch/torch.h>

namespace stages {

Optimizer::Optimizer(OptimizerOptions options, NamedTensors parameters) : options_(std::move(options)) {
  for (const auto& [name, tensor] : parameters) slots_.push_back({.name = name, .parameter = tensor});
}

void Optimizer::prepare() {
  const torch::NoGradGuard no_graph;
  const auto* adam = std::get_if<AdamOptions>(&options_);
  for (Slot& slot : slots_) {
    if (slot.ready || !slot.parameter.grad().defined()) continue;
    const auto zeros = [&] { return torch::zeros_like(slot.parameter, torch::MemoryFormat::Preserve); };
    if (adam) {
      slot.mean = zeros();
      slot.square = zeros();
      if (adam->amsgrad) slot.maximum = zeros();
      slot.age = torch::zeros({}, slot.parameter.options().dtype(torch::kFloat));
      if (!one_.defined()) one_ = torch::ones_like(slot.age);
    } else if (std::get<SgdOptions>(options_).momentum != 0) {
      slot.momentum = zeros();
    }
    slot.ready = true;
  }
}

void Optimizer::step(const Rates& rates, const std::optional<at::Tensor>& skip) {
  const torch::NoGradGuard no_graph;
  if (const auto* adam = std::get_if<AdamOptions>(&options_)) {
    step_adam(*adam, rates, skip);
    return;
  }
  // A first step fills the momentum with the gradient itself, so it is told apart from later ones.
  step_sgd(std::get<SgdOptions>(options_), rates, skip, /*fresh=*/false);
  step_sgd(std::get<SgdOptions>(options_), rates, skip, /*fresh=*/true);
}

void Optimizer::step_sgd(const SgdOptions& options, const Rates& rates, const std::optional<at::Tensor>& skip,
                         bool fresh) {
  std::vector<at::Tensor> parameters, gradients, momenta;
  for (Slot& slot : slots_) {
    if (slot.fresh != fresh || !slot.parameter.grad().defined()) continue;
    assert(slot.ready);
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    if (slot.momentum.defined()) momenta.push_back(slot.momentum);
    slot.fresh = false;
  }
  if (parameters.empty()) return;
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay, rates.momentum.value_or(options.momentum),
                  rates.learning_rate, options.dampening, options.nesterov, /*maximize=*/false, /*is_first_step=*/fresh,
                  /*grad_scale=*/{}, skip);
}

void Optimizer::step_adam(const AdamOptions& options, const Rates& rates, const std::optional<at::Tensor>& skip) {
  std::vector<at::Tensor> parameters, gradients, means, squares, maxima, ages;
  for (Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    assert(slot.ready);
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    means.push_back(slot.mean);
    squares.push_back(slot.square);
    if (options.amsgrad) maxima.push_back(slot.maximum);
    ages.push_back(slot.age);
    slot.fresh = false;
  }
  if (parameters.empty()) return;
  at::_foreach_add_(ages, one_);
  const double beta1 = rates.momentum.value_or(options.beta1);
  const std::optional<at::Tensor> no_scale;
  const auto update = [&](auto kernel) {
    kernel(parameters, gradients, means, squares, maxima, ages, rates.learning_rate, beta1, options.beta2,
           options.weight_decay, options.epsilon, options.amsgrad, /*maximize=*/false, no_scale, skip);
  };
  const auto adamw = [](auto&&... arguments) { at::_fused_adamw_(arguments...); };
  const auto adam = [](auto&&... arguments) { at::_fused_adam_(arguments...); };
  if (options.decoupled) update(adamw);
  else update(adam);
  if (skip) at::_foreach_sub_(ages, std::vector<at::Tensor>(ages.size(), *skip));
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> result;
  for (const Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) result.push_back(slot.parameter.grad());
  }
  return result;
}

NamedTensors Optimizer::state() const {
  NamedTensors result;
  for (const Slot& slot : slots_) {
    const auto add = [&](const char* what, const at::Tensor& tensor) {
      if (tensor.defined()) result.set(slot.name + "." + what, tensor);
    };
    add("momentum", slot.momentum);
    add("mean", slot.mean);
    add("square", slot.square);
    add("maximum", slot.maximum);
    add("age", slot.age);
  }
  return result;
}

}  // namespace stages
