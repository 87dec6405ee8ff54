#pragma once

#include <memory>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/model/feature_maps.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {

/// How a ResNet begins and ends.
enum class ResNetStem {
  kImageNet,  ///< 7 x 7 convolution and max-pooling; the last map as it is
  kFeti,      ///< 5 x 5 convolution without pooling; the last map pooled to 7 x 7
};

/// The options of schemas/model/backbone/resnet that say what it computes.
struct ResNetOptions {
  std::int64_t depth = 18;  ///< 12, 18 or 34
  ResNetStem stem = ResNetStem::kImageNet;
  BatchNormStatistics statistics = BatchNormStatistics::kOfBatch;
  std::int64_t width = 64;       ///< channels of the first stage; each other stage has twice those of the one before
  std::int64_t pooled_size = 7;  ///< of the map that kFeti ends with
};

/// Two 3 x 3 convolutions and what is added to them. Children by torchvision's names: conv1, bn1, conv2, bn2, and
/// where the shape changes downsample.0 and downsample.1.
class BasicBlock : public RecomputableModule {
 public:
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride, BatchNormStatistics statistics,
             const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  std::shared_ptr<Convolution> conv1_, conv2_, shortcut_;  // no shortcut: the input itself
  std::shared_ptr<BatchNorm> bn1_, bn2_, shortcut_norm_;
};

/// A residual network (He and others, 2015) up to its last feature map. Children by torchvision's names: conv1, bn1,
/// layer1.0 … layer4.N.
class ResNet : public FeatureMaps {
 public:
  ResNet(const ResNetOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;
  const ResNetOptions& options() const { return options_; }

 private:
  const ResNetOptions options_;
  std::shared_ptr<Convolution> conv1_;
  std::shared_ptr<BatchNorm> bn1_;
  std::vector<std::shared_ptr<BasicBlock>> blocks_;
};

}  // namespace stages
