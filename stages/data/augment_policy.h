#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stages/data/image_operation.h"
#include "stages/random/random.h"

namespace stages {

/// How automatic augmentation draws its operations. Names and defaults follow torchvision.
struct AugmentPolicy {
  /// kRandAugment: Cubuk et al., arXiv:1909.13719. kTrivialAugmentWide: Müller and Hutter,
  /// arXiv:2103.10158. kAutoAugment: Cubuk et al., arXiv:1805.09501, the policy for ImageNet.
  /// kAugMix: Hendrycks et al., arXiv:1912.02781. kThreeAugment: Touvron et al., arXiv:2204.07118,
  /// like timm's "3a".
  enum class Kind { kRandAugment, kTrivialAugmentWide, kAutoAugment, kAugMix, kThreeAugment };
  Kind kind = Kind::kRandAugment;
  std::int64_t num_ops = 2, magnitude = 9;       ///< for kRandAugment
  std::int64_t num_magnitude_bins = 31;          ///< for kRandAugment and kTrivialAugmentWide
  std::int64_t severity = 3, mixture_width = 3;  ///< for kAugMix, as are the next three
  std::optional<std::int64_t> chain_depth = {};  ///< nullopt: 1 to 3, drawn for each chain
  double alpha = 1;
  bool all_ops = true;
  Neighbors neighbors = Neighbors::kNearest;
  bool operator==(const AugmentPolicy&) const = default;
};

/// Operations applied one after another, and the share of their result in a mixture.
struct OperationChain {
  std::vector<OperationAt> steps;
  float share = 1;
};

/// The operations drawn for one image in one epoch.
struct DrawnPolicy {
  std::vector<OperationChain> chains;  ///< one chain, unless the policy mixes several
  float share_of_image = 0;            ///< the share of the unchanged image in the mixture
};

/// Draws operations for an image of `width` x `height`.
DrawnPolicy drawn_policy(const AugmentPolicy& policy, int width, int height, Random& random);

/// Applies the drawn operations. Mixtures are summed in float32 and rounded down, as in
/// torchvision's AugMix.
Image with_policy(const Image& image, const DrawnPolicy& drawn, Neighbors neighbors);

/// Returns element `bin` of torch.linspace(low, high, bins), computed in float32, as in torch.
double magnitude_of_bin(float low, float high, std::int64_t bin, std::int64_t bins);

}  // namespace stages
