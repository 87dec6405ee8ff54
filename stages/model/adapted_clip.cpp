#include "stages/model/adapted_clip.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/first_adapter.h"

namespace stages {
namespace {

using runner::StageError;

/// Does `act`, whose errors are about options in the section of adapters.
template <typename Act>
auto in_section(const ClipAdapterConfig& config, const Act& act) {
  try {
    return act();
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at(error.option).in_stage(config.pointer).with_help(error.help);
  }
}

HeadWeights class_head_of(const torch::nn::Module& network) {
  const auto weights = network.named_parameters();
  const at::Tensor* const weight = weights.find("class_head.weight");
  return weight ? HeadWeights{*weight, weights["class_head.bias"]} : HeadWeights{};
}

}  // namespace

AdaptedClip::AdaptedClip(const ClipOptions& clip, const ClipAdapterConfig& config, std::uint64_t seed,
                         const at::TensorOptions& options)
    : ClipNetwork(clip, options), lora_(in_section(config, [&] {
        return attach_lora(*this, config.options, module_names(WeightLayout::kClip), seed);
      })) {
  const HeadWeights head = class_head_of(*this);
  for (const at::Tensor& weight : {head.weight, head.bias}) {
    if (weight.defined()) weight.set_requires_grad(true);
  }
}

void AdaptedClip::begin(const ClipAdapterConfig& config) {
  if (config.adapter) {
    in_section(config, [&] {
      for (std::string& note : begin_from(*config.adapter, *this, lora_, class_head_of(*this)))
        notes.push_back(std::move(note));
    });
  }
  for (std::string& note : without_effect(lora_)) notes.push_back(std::move(note));
}

}  // namespace stages
