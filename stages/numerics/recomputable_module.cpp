#include "stages/numerics/recomputable_module.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/precision_map.h"
#include "stages/random/dropout.h"
#include "stages/random/generator_state.h"
#include "stages/tensor/module_names.h"

namespace stages {
namespace {

/// What a module contains. `any`: at least one PrecisionModule. `all`: all its weights are in
/// PrecisionModules.
struct Inside {
  bool any = false, all = true;
};

Inside look(const torch::nn::Module& module) {
  if (dynamic_cast<const PrecisionModule*>(&module)) return {.any = true};
  Inside inside{.all = module.parameters(/*recurse=*/false).empty()};
  for (const auto& child : module.children()) {
    const auto [any, all] = look(*child);
    inside.any |= any;
    inside.all &= all;
  }
  return inside;
}

}  // namespace

at::Tensor taken_in(Precision precision, const at::Tensor& x) {
  const bool is_half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return is_half ? x.to(scalar_type(precision)) : x;
}

NamedTensors taken_in(Precision precision, const NamedTensors& tensors) {
  NamedTensors result;
  for (const auto& [name, tensor] : tensors) result.set(name, taken_in(precision, tensor));
  return result;
}

OwnPrecision::OwnPrecision(const PrecisionModule& module) : running_(module) {
  if (!module.own_) return;
  precision_ = module.own_->precision;
  scope_.emplace(*precision_, module.own_->device);
}

at::Tensor OwnPrecision::operator()(const at::Tensor& x) const {
  return precision_ ? taken_in(*precision_, x) : x;
}

ScopedPrecisionMap::ScopedPrecisionMap(torch::nn::Module& network, const PrecisionMap& map,
                                       c10::Device device) {
  if (map.rules.empty()) return;
  network.apply([&](const std::string& path, torch::nn::Module& any) {
    auto* module = dynamic_cast<PrecisionModule*>(&any);
    if (!module) return;
    const PrecisionRule* rule = map.rule_for(path);
    before_.emplace_back(module, module->own_);
    module->own_ = PrecisionModule::Own{rule ? rule->precision : map.base, device};
  });
}

ScopedPrecisionMap::~ScopedPrecisionMap() {
  // In reverse order, so that a module that is in the network twice gets its original state back.
  for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry)
    entry->first->own_ = entry->second;
}

bool has_own_precision(const torch::nn::Module& module) {
  const auto [any, all] = look(module);
  return any && all;
}

namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;
using Compute = std::function<at::Tensor(const at::Tensor&)>;

/// Returns the device with the random number generators that operations on `device` use.
at::Device drawing_device(at::Device device) {
  return device.is_meta() ? at::Device(at::kCPU) : device;
}

bool same(const GeneratorStates& a, const GeneratorStates& b) {
  return std::ranges::equal(
      a, b, [](const auto& one, const auto& other) { return one.second.equal(other.second); });
}

variable_list trained(const torch::nn::Module& module) {
  variable_list parameters = module.parameters();
  std::erase_if(parameters, [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

/// A module's buffers, each with the values to write to it. Writing bypasses the version counters:
/// once the original values are restored, buffers that a graph has saved are valid again.
using Buffers = std::vector<std::pair<at::Tensor, at::Tensor>>;

Buffers copied(const torch::nn::Module& module) {
  Buffers buffers;
  for (const at::Tensor& buffer : module.buffers())
    buffers.emplace_back(buffer, buffer.detach().clone());
  return buffers;
}

void write(const Buffers& buffers) {
  const torch::NoGradGuard no_graph;
  for (const auto& [own, values] : buffers) own.variable_data().copy_(values);
}

/// While this object lives, the PassingWeights, if any, are gathered.
class ScopedWeights {
 public:
  explicit ScopedWeights(PassingWeights* weights) : weights_(weights) {
    if (weights_) weights_->gather();
  }
  ~ScopedWeights() {
    if (weights_) weights_->release();
  }
  ScopedWeights(const ScopedWeights&) = delete;
  ScopedWeights& operator=(const ScopedWeights&) = delete;

 private:
  PassingWeights* const weights_;
};

/// The state that compute() depends on, other than its input and the parameters, as it was in the
/// forward pass.
struct Conditions : torch::CustomClassHolder {
  Conditions(torch::nn::Module& module, Compute compute, at::Device device, bool updates_twice,
             PassingWeights* weights)
      : module(module),
        weights(weights),
        compute(std::move(compute)),
        device(device),
        precision(current_precision(device)),
        dropout(module),
        buffers(updates_twice ? Buffers() : copied(module)) {}

  torch::nn::Module& module;
  PassingWeights* const weights;  // null: the module has its weights
  const Compute compute;
  const at::Device device;
  const Precision precision;
  const DropoutNames dropout;
  const Buffers buffers;                      // to restore; empty if recomputing may change them
  std::optional<GeneratorStates> generators;  // nullopt: nothing was drawn from them
};

/// While this object lives, the generators and the buffers to restore have their state from the
/// forward pass.
class ScopedConditions {
 public:
  explicit ScopedConditions(const Conditions& conditions)
      : buffers_(conditions.buffers.empty() ? Buffers() : copied(conditions.module)) {
    if (conditions.generators) generators_ = generator_states(drawing_device(conditions.device));
    write(conditions.buffers);
    if (conditions.generators) set_generator_states(*conditions.generators);
  }
  ~ScopedConditions() {
    write(buffers_);
    if (generators_) set_generator_states(*generators_);
  }
  ScopedConditions(const ScopedConditions&) = delete;
  ScopedConditions& operator=(const ScopedConditions&) = delete;

 private:
  const Buffers buffers_;
  std::optional<GeneratorStates> generators_;
};

/// While this object lives, autocast neither fills nor reads its cache of half-precision weights: a
/// cast made without an autograd graph must not be used in one.
class ScopedNoCastCache {
 public:
  ScopedNoCastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~ScopedNoCastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  ScopedNoCastCache(const ScopedNoCastCache&) = delete;
  ScopedNoCastCache& operator=(const ScopedNoCastCache&) = delete;

 private:
  const bool before_;
};

/// The parameters are inputs too, so their gradients flow as they would without recomputation: they
/// accumulate in the same order, and arrive even if `x` needs no gradient.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::TensorList& /*parameters*/,
                            const c10::intrusive_ptr<Conditions>& conditions) {
    const GeneratorStates before = generator_states(drawing_device(x.device()));
    const ScopedNoCastCache no_cache;
    at::Tensor y = conditions->compute(x);
    if (!same(before, generator_states(drawing_device(x.device()))))
      conditions->generators = before;
    context->save_for_backward({x});
    context->saved_data["conditions"] = at::IValue::make_capsule(conditions);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("a recomputed module does not support second derivatives");
    const auto capsule = context->saved_data.at("conditions").toCapsule();
    const auto& conditions = static_cast<const Conditions&>(*capsule);
    const at::Tensor saved = context->get_saved_variables()[0];
    const at::Tensor x = saved.detach().requires_grad_(saved.requires_grad());
    variable_list inputs = trained(conditions.module);
    const std::size_t parameters = inputs.size();
    if (x.requires_grad()) inputs.insert(inputs.begin(), x);

    const ScopedWeights weights(conditions.weights);
    const ScopedConditions as_before(conditions);
    const at::Tensor y = once_more(conditions, x);
    variable_list result(inputs.size());
    if (y.requires_grad()) {
      result = torch::autograd::grad({y}, inputs, {gradients[0]}, /*retain_graph=*/false,
                                     /*create_graph=*/false,
                                     /*allow_unused=*/true);
    }
    if (result.size() == parameters) result.insert(result.begin(), at::Tensor());
    result.emplace_back();  // no gradient for the conditions
    return result;
  }

 private:
  static at::Tensor once_more(const Conditions& conditions, const at::Tensor& x) {
    const torch::AutoGradMode with_graph(true);
    // `input` must not be a leaf: autocast would cache its half-precision copy, in which the
    // gradients of all its uses would accumulate. view_as() would change the strides of dimensions
    // of size one, which affect the choice of kernels.
    const at::Tensor input = at::alias(x);
    const ScopedPrecision precision(conditions.precision, conditions.device);
    const ScopedDropout dropout(conditions.dropout);
    return conditions.compute(input);
  }
};

/// Returns compute(x) and saves only `x` for the backward pass, which recomputes the activations
/// with the same dropout names and precision, and from the same states of torch's generators and
/// the module's buffers. The buffers are left as they were unless `updates_twice`. The gradients
/// are bitwise the same and reach the parameters by the same paths, with one exception: autocast's
/// half-precision copies of a weight are not shared with outside code, so the gradients of a weight
/// that is used several times accumulate in float32.
///
/// `compute` must not use any parameter, buffer or random layer outside `module`, nor capture
/// anything that is destroyed before the backward pass. If nothing needs a gradient, this is just
/// compute(x). Second derivatives throw std::logic_error.
at::Tensor recomputed(torch::nn::Module& module, bool updates_twice, PassingWeights* weights,
                      const Compute& compute, const at::Tensor& x) {
  if (!torch::GradMode::is_enabled()) return compute(x);
  const variable_list parameters = trained(module);
  if (parameters.empty() && !x.requires_grad()) return compute(x);
  return Recompute::apply(
      x, at::TensorList(parameters),
      c10::make_intrusive<Conditions>(module, compute, x.device(), updates_twice, weights));
}

/// Returns compute(x) for weights that are about to be released.
at::Tensor without_graph(const torch::nn::Module& module, const Compute& compute,
                         const at::Tensor& x) {
  const bool has_graph =
      torch::GradMode::is_enabled() && (x.requires_grad() || !trained(module).empty());
  if (has_graph) throw std::logic_error("a module with passing weights must be recomputed");
  const ScopedNoCastCache no_cache;
  return compute(x);
}

}  // namespace

at::Tensor RecomputableModule::forward(const at::Tensor& x) const {
  return forward_of(x, [this](const at::Tensor& input) { return compute(input); });
}

at::Tensor RecomputableModule::forward_of(const at::Tensor& x, const Compute& compute) const {
  if (!recomputed_ && !weights_) return compute(x);
  const ScopedModule running(*this);  // attributes the kept input to this module
  const ScopedWeights weights(weights_);
  const bool has_no_graph = !recomputed_ || !torch::GradMode::is_enabled();
  if (weights_ && has_no_graph) return without_graph(*this, compute, x);
  return recomputed(*recomputed_, updates_twice_, weights_, compute, x);
}

ScopedActivationCheckpointing::ScopedActivationCheckpointing(
    torch::nn::Module& network, const ActivationCheckpointing& modules) {
  network.apply([&](const std::string& path, torch::nn::Module& any) {
    auto* module = dynamic_cast<RecomputableModule*>(&any);
    if (!module) return;
    before_.push_back({module, module->recomputed_, module->updates_twice_});
    const bool is_named = std::ranges::any_of(modules.modules, [&path](const std::string& pattern) {
      return names_module(pattern, path);
    });
    // A module that is in the network twice may be selected by either path.
    const bool is_second = std::ranges::count(before_, module, &Before::module) > 1;
    module->updates_twice_ = modules.updates_twice;
    if (is_named || (modules.blocks && module->is_block())) module->recomputed_ = module;
    else if (!is_second) module->recomputed_ = nullptr;
  });
}

ScopedActivationCheckpointing::~ScopedActivationCheckpointing() {
  for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) {
    entry->module->recomputed_ = entry->recomputed;
    entry->module->updates_twice_ = entry->updates_twice;
  }
}

}  // namespace stages
