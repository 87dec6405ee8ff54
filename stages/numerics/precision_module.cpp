#include "stages/numerics/precision_module.h"

#include <algorithm>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace stages {
namespace {

/// Whether some PrecisionModule is in it, and nothing with weights besides those.
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

at::Tensor OwnPrecision::operator()(const at::Tensor& x) const { return precision_ ? taken_in(*precision_, x) : x; }

ScopedPrecisionMap::ScopedPrecisionMap(torch::nn::Module& network, const PrecisionMap& map, c10::Device device) {
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
  // A module that is in the network twice is put back to what it was first.
  for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) entry->first->own_ = entry->second;
}

bool has_own_precision(const torch::nn::Module& module) {
  const auto [any, all] = look(module);
  return any && all;
}

}  // namespace stages
