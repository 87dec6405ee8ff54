#pragma once

#include <array>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/model/convolution_layers.h"
#include "stages/model/convolutional_networks.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {

/// A residual network of bottlenecks: ResNet-50 (He et al., 2015) or, with groups and gates,
/// SE-ResNeXt-50 32x4d (Xie et al., 2017; Hu et al., 2018).
struct BottleneckOptions {
  std::array<std::int64_t, 4> layers = {3, 4, 6, 3};  ///< blocks per stage
  std::int64_t cardinality = 1;                       ///< groups of the 3 x 3 convolution
  std::int64_t base_width = 64;    ///< channels per group, in a stage with 64 planes
  std::int64_t squeeze_ratio = 0;  ///< a block's channels per channel of its gate; 0: no gates
  std::int64_t planes = 64;        ///< in the first stage; doubled in each later stage
  double drop_path = 0;            ///< for the last block; rises in equal steps from 0 at the first
};

/// The dimensions of one block.
struct BottleneckSizes {
  std::int64_t in = 0, width = 0, out = 0, stride = 1, groups = 1;
  std::int64_t squeezed = 0;  ///< channels of the gate; 0: none
  double drop_path = 0;  ///< probability of skipping the convolutions for a sample, in training
};

/// A residual block: a 1 x 1, a 3 x 3 and a 1 x 1 convolution, an optional gate, and a shortcut.
/// Children, with timm's names: conv1, bn1, conv2, bn2, conv3, bn3, se and, if the shape changes,
/// downsample.0 and downsample.1; with a drop_path above 0 also drop_path.
class Bottleneck : public RecomputableModule {
 public:
  Bottleneck(const BottleneckSizes& sizes, const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::shared_ptr<Convolution> conv2_;
  std::shared_ptr<BatchNorm> bn2_;
  std::shared_ptr<Convolution> conv3_;
  std::shared_ptr<BatchNorm> bn3_;
  std::shared_ptr<SqueezeExcitation> se_;  // null: no gate
  std::shared_ptr<Convolution> shortcut_;  // null: the input itself
  std::shared_ptr<BatchNorm> shortcut_norm_;
  std::shared_ptr<Dropout> drop_path_;  // null: never skipped
};

/// The network up to its last feature map. Children, with timm's names: conv1, bn1, layer1.0 …
/// layer4.N.
class BottleneckNetwork : public FeatureMaps {
 public:
  BottleneckNetwork(const BottleneckOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;

 private:
  const std::int64_t channels_;  // channels of the last map
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<Bottleneck>> blocks_;
};

/// Returns relu(maps · gate + added), the last operation of a block with a gate: `maps` and `added`
/// are (n, channels, h, w), `gate` is (n, channels, 1, 1). The result is bitwise equal to that of
/// torch's operators, and the same tensors are saved for the backward pass: maps, gate and the
/// result. On a CPU, float32 channels_last maps are read and written once in each direction, and
/// double backward throws std::logic_error.
at::Tensor gated_residual(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added);

/// One stage of an inverted residual network: blocks of the same shape, of which only the first has
/// the stride.
struct InvertedResidualStage {
  std::int64_t blocks = 1, size = 3, stride = 1, out = 0;
};

/// MobileNetV2 (Sandler et al., 2018) or EfficientNet (Tan and Le, 2019). The blocks of the first
/// stage do not expand their input.
struct InvertedResidualOptions {
  std::vector<InvertedResidualStage> stages;
  std::int64_t stem = 32, head = 0;  ///< channels before the first stage, and after the last
  std::int64_t expansion = 6;        ///< factor by which a block widens its input
  bool is_efficient_net = false;     ///< with gates and SiLU; otherwise ReLU6
  double drop_path = 0;  ///< block i (starting at 0) gets drop_path · i / number of blocks

  static InvertedResidualOptions mobile_net_v2();
  static InvertedResidualOptions efficient_net_b2();
};

/// The dimensions of one block.
struct InvertedResidualSizes {
  std::int64_t in = 0, expansion = 1, out = 0, size = 3, stride = 1;
  bool is_efficient_net = false;
  double drop_path = 0;  ///< probability of adding only the input for a sample, in training
};

/// A block of an expanding 1 x 1 convolution, a depthwise convolution, a gate, and a projecting
/// 1 x 1 convolution. Children, with timm's names: conv_pw, bn1, conv_dw, bn2, se, conv_pwl, bn3;
/// without expansion conv_dw, bn1, se, conv_pw, bn2. A block that adds its input also has drop_path
/// if its drop_path is above 0.
class InvertedResidual : public RecomputableModule {
 public:
  InvertedResidual(const InvertedResidualSizes& sizes, const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  const bool is_silu_, adds_input_;
  std::shared_ptr<Convolution> widen_, depthwise_, narrow_;  // widen_ is null without expansion
  std::shared_ptr<BatchNorm> widen_norm_, depthwise_norm_, narrow_norm_;
  std::shared_ptr<SqueezeExcitation> se_;  // null: no gate
  std::shared_ptr<Dropout> drop_path_;     // null: never skipped
};

/// The network up to its last feature map. Children, with timm's names: conv_stem, bn1, blocks.0.0
/// …, conv_head, bn2.
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
