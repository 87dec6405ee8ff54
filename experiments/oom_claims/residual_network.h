#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/oom_claims/image_network.h"

namespace oom_claims {

struct ResidualOptions {
  std::vector<std::int64_t> blocks = {3, 4, 6, 3};  ///< per stage; from one stage to the next, the
                                                    ///< width doubles and the area halves
  std::int64_t width = 64;
  std::int64_t stem_kernel = 7;
  bool pools = true;        ///< after the stem, pools to half the width and height
  bool bottleneck = false;  ///< each block is a 1×1, a grouped 3×3 and a 1×1 convolution with a
                            ///< gate per channel; false: two 3×3 convolutions
  std::int64_t groups = 1;
  std::int64_t classes = 64;
};

class ConvolutionAndNorm;
class ResidualBlock;

/// A stem, stages of residual blocks with BatchNorm, mean pooling and a linear layer.
class ResidualNetwork final : public ImageNetwork {
 public:
  ResidualNetwork(const ResidualOptions& network, const at::TensorOptions& options);
  at::Tensor logits(const at::Tensor& images) override;

 private:
  const bool pools_;
  std::shared_ptr<ConvolutionAndNorm> stem_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  at::Tensor head_weight_, head_bias_;
};

}  // namespace oom_claims
