#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

namespace stages {

/// How a query is compared with the mean of a class.
enum class PrototypeDistance {
  kCosine,     ///< all features are divided by their length first
  kEuclidean,  ///< the squared distance, as in prototypical networks
};
inline constexpr std::array<std::pair<std::string_view, PrototypeDistance>, 2> kPrototypeDistances =
    {{{"cosine", PrototypeDistance::kCosine}, {"euclidean", PrototypeDistance::kEuclidean}}};

struct PrototypeRule {
  PrototypeDistance distance = PrototypeDistance::kCosine;
  double scale = 10;       ///< of cosines
  at::Tensor center = {};  ///< (features) float64, subtracted from all features; undefined: none
};

/// Classifies each query by the nearest class mean of the supports (Snell et al. 2017,
/// arXiv:1703.05175; with a center and cosines, CL2N of Wang et al. 2019, arXiv:1911.04623).
/// `supports` (ways, shots, …) and `queries` (n, …) are features of any shape, which is flattened.
/// Returns logits (n, ways), float64: scaled cosines, or negative squared distances.
at::Tensor prototype_logits(const at::Tensor& supports, const at::Tensor& queries,
                            const PrototypeRule& rule);

}  // namespace stages
