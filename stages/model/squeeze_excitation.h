#pragma once

#include <memory>
#include <string>

#include "stages/model/convolution_layers.h"
#include "stages/numerics/precision_module.h"

namespace stages {

/// What of a map's channels lets through how much (Hu and others, 2018).
struct SqueezeExcitationSizes {
  std::int64_t channels = 0, squeezed = 0;
};

/// How networks name the two layers of a gate, and what is between these.
struct SqueezeExcitationStyle {
  std::string squeeze, excite;  ///< "fc1" and "fc2" of ResNets, "conv_reduce" and "conv_expand" of EfficientNets
  bool is_silu = false;         ///< else ReLU
};

/// The gate of a block: a number between 0 and 1 for each channel of each image. Children by the style's names, both
/// 1 x 1 convolutions with a bias.
class SqueezeExcitation : public PrecisionModule {
 public:
  SqueezeExcitation(const SqueezeExcitationSizes& sizes, const SqueezeExcitationStyle& style,
                    const at::TensorOptions& options);
  /// Of maps (n, channels, h, w) how much of each channel goes through, (n, channels, 1, 1).
  at::Tensor forward(const at::Tensor& maps) const;

 private:
  const bool is_silu_;
  std::shared_ptr<Convolution> squeeze_, excite_;
};

}  // namespace stages
