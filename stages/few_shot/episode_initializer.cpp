#include "stages/few_shot/episode_initializer.h"

#include <cmath>
#include <string>

#include <torch/nn/module.h>
#include <torch/utils.h>

#include "stages/model/convolution_layers.h"
#include "stages/few_shot/episode_network.h"
#include "stages/few_shot/few_shot_head.h"
#include "stages/model/initializer.h"
#include "stages/model/layers.h"

namespace stages {
namespace {

constexpr Distribution kZeros = {Distribution::Kind::kZero}, kOnes = {Distribution::Kind::kOne};

enum class ConvolutionRule { kUniform, kNormal };

/// Torch's rule for layers of so many inputs.
Distribution uniform_of_inputs(std::int64_t inputs) {
  return {Distribution::Kind::kUniform, 1 / std::sqrt(static_cast<double>(inputs))};
}

/// Draws the weights of a module itself, which `path` leads to.
class LayerInitializer {
 public:
  LayerInitializer(ConvolutionRule rule, std::uint64_t seed) : rule_(rule), seed_(seed) {}

  void operator()(const std::string& path, torch::nn::Module& module) const {
    const auto draw = [&](const at::Tensor& weight, const char* name, const Distribution& distribution) {
      if (weight.defined()) draw_weight(weight, distribution, path + "." + name, seed_);
    };
    if (const auto* linear = module.as<Linear>()) {
      const Distribution uniform = uniform_of_inputs(linear->weight.size(1));
      draw(linear->weight, "weight", uniform);
      draw(linear->bias, "bias", uniform);
    } else if (const auto* convolution = module.as<Convolution>()) {
      const Distribution uniform = uniform_of_inputs(convolution->weight[0].numel());
      draw(convolution->weight, "weight", rule_ == ConvolutionRule::kUniform ? uniform : normal_of(*convolution));
      draw(convolution->bias, "bias", uniform);
    } else if (const auto* layer_norm = module.as<LayerNorm>()) {
      draw(layer_norm->weight, "weight", kOnes);
      draw(layer_norm->bias, "bias", kZeros);
    } else if (const auto* batch_norm = module.as<BatchNorm>()) {
      draw(batch_norm->weight, "weight", kOnes);
      draw(batch_norm->bias, "bias", kZeros);
    } else if (const auto* head = module.as<FewShotHead>()) {
      draw(head->prototype_weight, "prototype_weight", kOnes);
    } else if (const auto* score = module.as<PairScore>(); score && score->direction.defined()) {
      draw(score->direction, "direction", uniform_of_inputs(score->direction.size(1)));
      const torch::NoGradGuard no_graph;
      score->length.copy_(score->direction.norm(2, {1}, /*keepdim=*/true));
    }
  }

 private:
  static Distribution normal_of(const Convolution& convolution) {
    const at::Tensor& weight = convolution.weight;
    const auto outputs = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
    return {Distribution::Kind::kNormal, std::sqrt(2 / outputs)};
  }

  const ConvolutionRule rule_;
  const std::uint64_t seed_;
};

}  // namespace

void initialize_head(EpisodeNetwork& network, std::uint64_t seed) {
  network.head().apply(LayerInitializer(ConvolutionRule::kUniform, seed), "head");
}

void initialize_backbone(FeatureMaps& backbone, std::uint64_t seed) {
  backbone.apply(LayerInitializer(ConvolutionRule::kNormal, seed), "backbone");
}

}  // namespace stages
