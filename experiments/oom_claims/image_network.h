#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <torch/nn/module.h>

namespace oom_claims {

/// A network that says what images (n, 3, side, side) show.
class ImageNetwork : public torch::nn::Module {
 public:
  /// (n, classes).
  virtual at::Tensor logits(const at::Tensor& images) = 0;
};

/// A kind of network, and how one is made on a device, with its weights unset.
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
/// ViT-B/16 for images of so many pixels a side; with a rank, frozen but for LoRA adapters of
/// queries and values and the head.
NetworkKind vit_b16(std::int64_t side = 224, std::int64_t lora_rank = 0);

/// Two blocks of width 8 with dropout, for images of 8 pixels a side and three classes; no row sees
/// another.
NetworkKind small_tower(double dropout = 0);
/// Two residual blocks with BatchNorm for images of any size, with three classes.
NetworkKind small_residual();

/// Draws every weight from a seed, in a network on the CPU.
void draw_weights(torch::nn::Module& network, std::uint64_t seed);

}  // namespace oom_claims
