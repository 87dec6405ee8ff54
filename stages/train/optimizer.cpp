#include "stages/train/optimizer.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "runner/stage/config_reader.h"

namespace stages {
namespace {

OptimizerOptions read_sgd(runner::ConfigReader& reader) {
  SgdOptions options;
  reader.read("learning_rate", options.learning_rate);
  reader.read("momentum", options.momentum);
  reader.read("dampening", options.dampening);
  reader.read("nesterov", options.nesterov);
  reader.read("weight_decay", options.weight_decay);
  return options;
}

AdamOptions read_adam_options(runner::ConfigReader& reader) {
  AdamOptions options;
  std::vector<double> betas;
  reader.read("learning_rate", options.learning_rate);
  reader.read("betas", betas);
  reader.read("epsilon", options.epsilon);
  reader.read("weight_decay", options.weight_decay);
  reader.read("amsgrad", options.amsgrad);
  if (betas.size() == 2) {
    options.beta1 = betas[0];
    options.beta2 = betas[1];
  }
  return options;
}

OptimizerOptions read_adam(runner::ConfigReader& reader) { return read_adam_options(reader); }

OptimizerOptions read_adamw(runner::ConfigReader& reader) {
  AdamOptions options = read_adam_options(reader);
  options.decoupled = true;
  return options;
}

}  // namespace

double learning_rate(const OptimizerOptions& options) {
  return std::visit([](const auto& one) { return one.learning_rate; }, options);
}

OptimizerOptions read_optimizer(runner::ConfigReader& reader) {
  using Read = OptimizerOptions (*)(runner::ConfigReader&);
  const auto read =
      runner::choice<Read>(reader, "kind", {{"sgd", read_sgd}, {"adam", read_adam}, {"adamw", read_adamw}});
  return read ? read(reader) : OptimizerOptions{};
}

Optimizer::Optimizer(const std::vector<ParameterGroup>& groups) {
  assert(!groups.empty());
  for (const ParameterGroup& group : groups) {
    for (const auto& [name, tensor] : group.parameters)
      slots_.push_back({.name = name, .group = names_.size(), .parameter = tensor});
    names_.push_back(group.name);
    options_.push_back(group.optimizer);
    rates_.push_back({.learning_rate = learning_rate(group.optimizer), .momentum = {}});
  }
  if (!slots_.empty()) one_ = torch::ones({}, slots_[0].parameter.options().dtype(torch::kFloat));
}

Optimizer::Optimizer(OptimizerOptions options, NamedTensors parameters)
    : Optimizer({{.name = "", .optimizer = std::move(options), .parameters = std::move(parameters)}}) {}

std::vector<double> Optimizer::learning_rates() const {
  std::vector<double> result;
  for (const OptimizerOptions& options : options_) result.push_back(learning_rate(options));
  return result;
}

std::vector<Optimizer::Part> Optimizer::parts() const {
  if (const auto* sgd = std::get_if<SgdOptions>(&options_[0])) {
    return sgd->momentum == 0 ? std::vector<Part>{} : std::vector<Part>{{"momentum", &Slot::momentum}};
  }
  std::vector<Part> result = {{"mean", &Slot::mean}, {"square", &Slot::square}};
  if (std::get<AdamOptions>(options_[0]).amsgrad) result.emplace_back("maximum", &Slot::maximum);
  result.emplace_back("age", &Slot::age);
  return result;
}

at::Tensor Optimizer::zeros(const Slot& slot, const Part& part) {
  if (part.second == &Slot::age) return torch::zeros({}, slot.parameter.options().dtype(torch::kFloat));
  return torch::zeros_like(slot.parameter, torch::MemoryFormat::Preserve);
}

void Optimizer::take_step(Slot& slot, const std::optional<at::Tensor>& skip) {
  slot.undecided = slot.fresh && skip;
  slot.fresh = false;
}

bool Optimizer::skipped_first_steps() const {
  // A dry run's skip has no value: its steps count as taken.
  return first_skip_.defined() && !first_skip_.is_meta() && first_skip_.item<float>() == 1;
}

void Optimizer::decide_first_steps() {
  if (!first_skip_.defined()) return;
  const bool skipped = skipped_first_steps();
  for (Slot& slot : slots_) {
    if (std::exchange(slot.undecided, false)) slot.fresh = skipped;
  }
  first_skip_.reset();
}

void Optimizer::prepare() {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  for (Slot& slot : slots_) {
    if (slot.ready || !slot.parameter.grad().defined()) continue;
    for (const Part& part : parts()) slot.*part.second = zeros(slot, part);
    slot.ready = true;
  }
}

void Optimizer::ask_for_gradients(const std::function<bool(std::string_view)>& wanted) {
  for (Slot& slot : slots_) slot.parameter.requires_grad_(wanted(slot.name));
}

void Optimizer::set_rates(std::vector<Rates> rates) {
  assert(rates.size() == options_.size());
  rates_ = std::move(rates);
}

void Optimizer::step(const std::optional<at::Tensor>& skip, std::optional<at::Tensor> divisor) {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  if (divisor && divisor->scalar_type() != torch::kFloat) {  // the kernels read a float32
    at::_foreach_div_(gradients(), *divisor);
    divisor.reset();
  }
  for (std::size_t group = 0; group < options_.size(); ++group) {
    if (std::holds_alternative<AdamOptions>(options_[group])) {
      step_adam(group, skip, divisor);
      continue;
    }
    // A first step fills the momentum with the gradient itself, so it is distinguished from later ones.
    step_sgd(group, skip, divisor, /*fresh=*/false);
    step_sgd(group, skip, divisor, /*fresh=*/true);
  }
  if (std::ranges::any_of(slots_, &Slot::undecided)) first_skip_ = *skip;
}

void Optimizer::step_sgd(std::size_t group, const std::optional<at::Tensor>& skip,
                         const std::optional<at::Tensor>& divisor, bool fresh) {
  const Rates& rates = rates_[group];
  const auto& options = std::get<SgdOptions>(options_[group]);
  std::vector<at::Tensor> parameters, gradients, momenta;
  for (Slot& slot : slots_) {
    if (slot.group != group || slot.fresh != fresh || !slot.parameter.grad().defined()) continue;
    assert(slot.ready);
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    if (slot.momentum.defined()) momenta.push_back(slot.momentum);
    take_step(slot, skip);
  }
  if (parameters.empty()) return;
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay, rates.momentum.value_or(options.momentum),
                  rates.learning_rate, options.dampening, options.nesterov, /*maximize=*/false, /*is_first_step=*/fresh,
                  divisor, skip);
}

void Optimizer::step_adam(std::size_t group, const std::optional<at::Tensor>& skip,
                          const std::optional<at::Tensor>& divisor) {
  const Rates& rates = rates_[group];
  const auto& options = std::get<AdamOptions>(options_[group]);
  std::vector<at::Tensor> parameters, gradients, means, squares, maxima, ages;
  for (Slot& slot : slots_) {
    if (slot.group != group || !slot.parameter.grad().defined()) continue;
    assert(slot.ready);
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    means.push_back(slot.mean);
    squares.push_back(slot.square);
    if (options.amsgrad) maxima.push_back(slot.maximum);
    ages.push_back(slot.age);
    take_step(slot, skip);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(ages, one_);
  const double beta1 = rates.momentum.value_or(options.beta1);
  const auto update = [&](auto kernel) {
    kernel(parameters, gradients, means, squares, maxima, ages, rates.learning_rate, beta1, options.beta2,
           options.weight_decay, options.epsilon, options.amsgrad, /*maximize=*/false, divisor, skip);
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
  std::vector<NamedTensors::Item> items;
  const bool skipped = skipped_first_steps();
  for (const Slot& slot : slots_) {
    // A momentum that no step has filled is none: the first gradient replaces it.
    if (slot.fresh || (slot.undecided && skipped)) continue;
    for (const auto& [name, member] : parts()) items.emplace_back(slot.name + "." + name, slot.*member);
  }
  return NamedTensors(std::move(items));
}

void Optimizer::load_state(const NamedTensors& state) {
  const torch::NoGradGuard no_graph;
  std::map<std::string, at::Tensor, std::less<>> given(state.begin(), state.end());
  const auto refuse = [](const std::string& what) { throw std::invalid_argument("the optimizer's state has " + what); };
  std::vector<Slot> loaded;
  for (const Slot& slot : slots_) {
    Slot& fresh = loaded.emplace_back(Slot{.name = slot.name, .group = slot.group, .parameter = slot.parameter});
    const auto missing = [&](const Part& part) { return !given.contains(slot.name + "." + part.first); };
    const std::vector<Part> all = parts();
    if (std::ranges::all_of(all, missing)) continue;
    for (const Part& part : all) {
      const std::string name = slot.name + "." + part.first;
      if (missing(part)) refuse("no '" + name + "'");
      const at::Tensor& tensor = given.at(name);
      at::Tensor& taken = fresh.*part.second = zeros(slot, part);
      if (tensor.sizes() != taken.sizes()) {
        refuse("a '" + name + "' of shape " + c10::str(tensor.sizes()) + ", not " + c10::str(taken.sizes()));
      }
      if (tensor.scalar_type() != taken.scalar_type()) {
        refuse("a '" + name + "' of type " + c10::toString(tensor.scalar_type()) + ", not " +
               c10::toString(taken.scalar_type()));
      }
      taken.copy_(tensor);
    }
    for (const Part& part : all) given.erase(slot.name + "." + part.first);
    fresh.ready = true;
    fresh.fresh = false;
  }
  if (!given.empty()) refuse("a '" + given.begin()->first + "' for no parameter");
  slots_ = std::move(loaded);
  first_skip_.reset();
}

}  // namespace stages
