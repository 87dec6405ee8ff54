#pragma once

#include <cstdint>
#include <vector>

#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"

namespace stages {

/// How samples of a batch are mixed before they are learnt from. 0: not so.
struct MixingOptions {
  double mixup_alpha =
      0;  ///< mixup (Zhang and others 2018, arXiv:1710.09412), by shares from Beta(alpha, alpha)
  double cutmix_alpha = 0;  ///< CutMix (Yun and others 2019, arXiv:1905.04899)

  bool mixes() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

/// A rectangle of pixels.
struct MixedBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// How one sample is mixed with another.
struct Mixture {
  double share = 1;  ///< of its own
  MixedBox box;  ///< where the other is seen instead, by CutMix; empty: both are seen everywhere
};

/// A function of the key and the sample's `name`, by Philox. Images have `height` x `width` pixels.
/// Where both ways are asked for, each is taken as often. Shares of CutMix are those of the pixels.
Mixture draw_mixture(const MixingOptions& options, const StepKey& key, std::uint32_t name,
                     std::int64_t height, std::int64_t width);

/// The batch with each sample's "image", or whatever of it is of floating point, mixed with that of
/// the sample before it, of the first with the last; with "partner_label", that one's label, and
/// "share", that of its own. A batch of one is mixed with itself.
Batch mix_samples(const Batch& batch, const MixingOptions& options, const StepKey& key);

}  // namespace stages
