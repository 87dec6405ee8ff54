#pragma once

#include <array>
#include <memory>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/model/feature_maps.h"
#include "stages/model/squeeze_excitation.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {

/// A residual network of bottlenecks: ResNet-50 (He and others, 2015), and with groups and gates SE-ResNeXt-50 32x4d
/// (Xie, 2017; Hu, 2018).
struct BottleneckOptions {
  std::array<std::int64_t, 4> layers = {3, 4, 6, 3};  ///< blocks of each stage
  std::int64_t cardinality = 1;                       ///< groups of the 3 x 3 convolution
  std::int64_t base_width = 64;                       ///< channels of a group, where a stage has 64 planes
  std::int64_t squeeze_ratio = 0;                     ///< channels of a block for each one of its gate; 0: no gates
  std::int64_t planes = 64;                           ///< of the first stage; each other has twice those before
};

/// Of one block.
struct BottleneckSizes {
  std::int64_t in = 0, width = 0, out = 0, stride = 1, groups = 1;
  std::int64_t squeezed = 0;  ///< channels of the gate; 0: none
};

/// A 1 x 1, a 3 x 3 and a 1 x 1 convolution, a gate, and what is added to them. Children by timm's names: conv1, bn1,
/// conv2, bn2, conv3, bn3, se, and where the shape changes downsample.0 and downsample.1.
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
  std::shared_ptr<SqueezeExcitation> se_;  // null: none
  std::shared_ptr<Convolution> shortcut_;  // null: the input itself
  std::shared_ptr<BatchNorm> shortcut_norm_;
};

/// Up to its last feature map. Children by timm's names: conv1, bn1, layer1.0 … layer4.N.
class BottleneckNetwork : public FeatureMaps {
 public:
  BottleneckNetwork(const BottleneckOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;

 private:
  const std::int64_t channels_;  // of the last map
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<Bottleneck>> blocks_;
};

}  // namespace stages
