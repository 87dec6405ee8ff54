#pragma once

#include <memory>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/model/feature_maps.h"
#include "stages/model/squeeze_excitation.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {

/// One stage of such a network: blocks of one shape, of which the first has the stride.
struct InvertedResidualStage {
  std::int64_t blocks = 1, size = 3, stride = 1, out = 0;
};

/// MobileNetV2 (Sandler and others, 2018) or EfficientNet (Tan and Le, 2019). The first stage is not widened.
struct InvertedResidualOptions {
  std::vector<InvertedResidualStage> stages;
  std::int64_t stem = 32, head = 0;  ///< channels before the first stage, and after the last
  std::int64_t expansion = 6;        ///< how much wider a block is inside
  bool is_efficient_net = false;     ///< gates, and SiLU; else ReLU6

  static InvertedResidualOptions mobile_net_v2();
  static InvertedResidualOptions efficient_net_b2();
};

/// Of one block.
struct InvertedResidualSizes {
  std::int64_t in = 0, expansion = 1, out = 0, size = 3, stride = 1;
  bool is_efficient_net = false;
};

/// A 1 x 1 convolution that widens, one of each channel by itself, a gate, and one that narrows. Children by timm's
/// names: conv_pw, bn1, conv_dw, bn2, se, conv_pwl, bn3; where nothing is widened conv_dw, bn1, se, conv_pw, bn2.
class InvertedResidual : public RecomputableModule {
 public:
  InvertedResidual(const InvertedResidualSizes& sizes, const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  const bool is_silu_, adds_input_;
  std::shared_ptr<Convolution> widen_, depthwise_, narrow_;  // no widen_: the input itself
  std::shared_ptr<BatchNorm> widen_norm_, depthwise_norm_, narrow_norm_;
  std::shared_ptr<SqueezeExcitation> se_;  // null: none
};

/// Up to its last feature map. Children by timm's names: conv_stem, bn1, blocks.0.0 …, conv_head, bn2.
class InvertedResidualNetwork : public FeatureMaps {
 public:
  InvertedResidualNetwork(const InvertedResidualOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;

 private:
  const InvertedResidualOptions options_;
  std::shared_ptr<Convolution> conv_stem_, conv_head_;
  std::shared_ptr<BatchNorm> bn1_, bn2_;
  std::vector<std::shared_ptr<InvertedResidual>> blocks_;
};

}  // namespace stages
