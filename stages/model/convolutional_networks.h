#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {

/// The channels, height and width of a network's output for an image.
struct MapShape {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t features() const { return channels * height * width; }
  bool operator==(const MapShape&) const = default;
};

/// A network that computes feature maps of images.
class FeatureMaps : public PrecisionModule {
 public:
  /// Maps (n, 3, height, width) to (n, channels, height', width'), with the sizes given by shape().
  virtual at::Tensor forward(const at::Tensor& images) const = 0;
  /// Returns the shape of the output for images of that size; nullopt if they are too small for the
  /// network's pooling.
  virtual std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const = 0;
};

/// A DenseNet (Huang et al., 2017); the defaults are DenseNet-121.
struct DenseOptions {
  std::array<std::int64_t, 4> layers = {6, 12, 24, 16};  ///< of each block
  std::int64_t growth = 32;                              ///< channels that a layer adds
  std::int64_t channels = 64;                            ///< channels before the first block
};

/// A block of layers, each of which reads the block's input and the outputs of all layers before
/// it. Children: denselayer1 …, each with norm1, conv1, norm2 and conv2.
class DenseBlock : public RecomputableModule {
 public:
  DenseBlock(std::int64_t in, std::int64_t layers, std::int64_t growth,
             const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  class Layer;
  at::Tensor compute(const at::Tensor& x) const override;

  std::vector<std::shared_ptr<Layer>> layers_;
};

/// Halves the channels, the height and the width. Children: norm and conv.
class DenseTransition : public RecomputableModule {
 public:
  DenseTransition(std::int64_t in, const at::TensorOptions& options);

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  std::shared_ptr<BatchNorm> norm_;
  std::shared_ptr<Convolution> conv_;
};

/// The network up to its last feature map. Children, with timm's names, below features: conv0,
/// norm0, denseblock1, transition1 … norm5.
class DenseNetwork : public FeatureMaps {
 public:
  DenseNetwork(const DenseOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;

 private:
  std::int64_t channels_;  // channels of the last map
  std::shared_ptr<Convolution> conv0_;
  std::shared_ptr<BatchNorm> norm0_, norm5_;
  std::vector<std::shared_ptr<DenseBlock>> blocks_;
  std::vector<std::shared_ptr<DenseTransition>> transitions_;  // after all blocks but the last
};

/// The options of schemas/model/backbone/conv.
struct ConvNetworkOptions {
  std::int64_t blocks = 4, channels = 64;
  BatchNormStatistics statistics = BatchNormStatistics::kCollected;
};

/// A 3 x 3 convolution, BatchNorm, ReLU and, if `pools` is set, max-pooling by 2. Children: conv
/// and norm.
class ConvBlock : public RecomputableModule {
 public:
  ConvBlock(std::int64_t in, std::int64_t out, bool pools, BatchNormStatistics statistics,
            const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  std::shared_ptr<Convolution> conv_;
  std::shared_ptr<BatchNorm> norm_;
  const bool pools_;
};

/// The small network used in few-shot learning (Vinyals et al., 2016): blocks of the same width, of
/// which the first four apply pooling. Children: blocks.0, blocks.1 …
class ConvNetwork : public FeatureMaps {
 public:
  ConvNetwork(const ConvNetworkOptions& network, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& images) const override;
  std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const override;

 private:
  const std::int64_t channels_;
  std::vector<std::shared_ptr<ConvBlock>> blocks_;
};

}  // namespace stages
