#include "stages/numerics/recomputable_module.h"

#include <algorithm>
#include <string>

#include <torch/torch.h>

#include "stages/numerics/recompute.h"

namespace stages {

at::Tensor RecomputableModule::forward(const at::Tensor& x) const {
  if (!recomputed_) return compute(x);
  return recomputed(
      *recomputed_, [this](const at::Tensor& input) { return compute(input); }, x);
}

ScopedActivationCheckpointing::ScopedActivationCheckpointing(torch::nn::Module& network,
                                                             const ActivationCheckpointing& modules) {
  network.apply([&](const std::string& path, torch::nn::Module& any) {
    auto* module = dynamic_cast<RecomputableModule*>(&any);
    if (!module) return;
    before_.emplace_back(module, module->recomputed_);
    const bool is_named = std::ranges::any_of(
        modules.modules, [&path](const std::string& pattern) { return names_module(pattern, path); });
    // A module that stands in the network twice may be named by either path.
    const bool is_second = std::ranges::count(before_, module, &decltype(before_)::value_type::first) > 1;
    if (is_named || (modules.blocks && module->is_block())) module->recomputed_ = module;
    else if (!is_second) module->recomputed_ = nullptr;
  });
}

ScopedActivationCheckpointing::~ScopedActivationCheckpointing() {
  for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) entry->first->recomputed_ = entry->second;
}

}  // namespace stages
