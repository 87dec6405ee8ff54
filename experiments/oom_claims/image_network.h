#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace oom_claims {

/// A network that classifies images (n, 3, side, side).
class ImageNetwork : public torch::nn::Module {
 public:
  /// Returns (n, classes).
  virtual at::Tensor logits(const at::Tensor& images) = 0;
};

/// A kind of network, with a function that creates one without initializing its weights.
struct NetworkKind {
  std::string name;
  std::function<std::shared_ptr<ImageNetwork>(const at::TensorOptions&)> make;
};

/// ResNet-34 (He et al. 2015, arXiv:1512.03385).
NetworkKind resnet34();
/// ResNet-34 without the pooling after its first layer.
NetworkKind resnet34_without_pooling();
/// SE-ResNeXt-50, 32 groups of 4 channels (Hu et al. 2017, arXiv:1709.01507), with two classes.
NetworkKind se_resnext50();
/// ViT-B/16 for images of `side` x `side` pixels. If `lora_rank` is above 0, only the head and the
/// LoRA adapters for queries and values are trained.
NetworkKind vit_b16(std::int64_t side = 224, std::int64_t lora_rank = 0);

/// Two blocks of width 8 with dropout, for images of 8 x 8 pixels and three classes; rows do not
/// influence each other.
NetworkKind small_tower(double dropout = 0);
/// Two residual blocks with BatchNorm for images of any size, with three classes.
NetworkKind small_residual();

/// Initializes every weight of a network on the CPU at random, from a seed.
void draw_weights(torch::nn::Module& network, std::uint64_t seed);

}  // namespace oom_claims
