#pragma once

#include <memory>
#include <vector>

#include "stages/model/convolution_layers.h"
#include "stages/model/feature_maps.h"
#include "stages/numerics/recomputable_module.h"

namespace stages {

/// The options of schemas/model/backbone/conv.
struct ConvNetworkOptions {
  std::int64_t blocks = 4, channels = 64;
  BatchNormStatistics statistics = BatchNormStatistics::kCollected;
};

/// A 3 x 3 convolution, BatchNorm, ReLU and, where it `pools`, max-pooling by 2. Children: conv and norm.
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

/// The small network of few-shot learning (Vinyals and others, 2016): blocks of one width, of which the first four
/// pool. Children: blocks.0, blocks.1 …
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
