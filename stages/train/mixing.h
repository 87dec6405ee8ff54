#pragma once

#include <cstdint>
#include <vector>

#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"

namespace runner {
class ConfigReader;
}

namespace stages {

class Dataset;

/// Options for mixing the samples of a batch before training on them. 0 turns a method off.
struct MixingOptions {
  double mixup_alpha =
      0;  ///< mixup (Zhang et al. 2018, arXiv:1710.09412), with shares from Beta(alpha, alpha)
  double cutmix_alpha = 0;  ///< CutMix (Yun et al. 2019, arXiv:1905.04899)

  bool mixes() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};

/// Reads the options `mixup` and `cutmix`.
MixingOptions read_mixing(runner::ConfigReader& reader);
/// Throws runner::StageError at /cutmix if CutMix is enabled for samples without images.
void check_mixing(const MixingOptions& options, const Dataset& train);

/// A rectangle of pixels.
struct MixedBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// How one sample is mixed with another.
struct Mixture {
  double share = 1;  ///< share of the sample itself
  MixedBox box;      ///< where CutMix inserts the other sample; empty: blended everywhere
};

/// Returns a mixture that depends only on the key and the sample's `name`, drawn with Philox.
/// Images have `height` x `width` pixels. If both methods are enabled, each is equally likely. For
/// CutMix, the share is the fraction of pixels.
Mixture draw_mixture(const MixingOptions& options, const StepKey& key, std::uint32_t name,
                     std::int64_t height, std::int64_t width);

/// Mixes each sample's floating-point inputs, such as "image", with those of the previous sample in
/// the batch (for the first sample: the last). A "target" is mixed according to the sample's own
/// share, even with CutMix. Samples with a "label" get "partner_label", the label of the other
/// sample, and "share", the share of the sample itself. A single sample is mixed with itself.
Batch mix_samples(const Batch& batch, const MixingOptions& options, const StepKey& key);

}  // namespace stages
