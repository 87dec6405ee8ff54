#include "stages/few_shot/cross_head.h"

#include <cmath>

#include <torch/types.h>

#include "stages/numerics/precision.h"

namespace stages {

CrossHead::CrossHead(const CrossHeadOptions& head, const MapShape& map, const at::TensorOptions& options)
    : options_(head),
      channels_(map.channels),
      projection_(register_module(
          "projection",
          std::make_shared<Convolution>(ConvolutionSizes{.in = map.channels, .out = head.width, .size = 1}, options))) {
}

at::Tensor CrossHead::projected(const at::Tensor& features, const MapShape& map) const {
  const at::Tensor maps = features.view({-1, channels_, map.height, map.width});
  return projection_->forward(maps).flatten(1);
}

at::Tensor CrossHead::weights_of(const at::Tensor& queries, const at::Tensor& supports) const {
  const auto products = [&](const at::Tensor& q, const at::Tensor& s) {
    return q.matmul(s.flatten(0, 1).t()).view({q.size(0), s.size(0), s.size(1)});
  };
  if (options_.attention == PairAttention::kCosine) return products(directions(queries), directions(supports));
  return torch::softmax(products(queries, supports) / std::sqrt(static_cast<double>(options_.width)), /*dim=*/2);
}

at::Tensor CrossHead::forward(const EpisodeFeatures& features) const {
  const OwnPrecision own(*this);
  const std::int64_t ways = features.supports.size(0), shots = features.supports.size(1);
  const auto in_float = [](const at::Tensor& x) {
    return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  };
  const at::Tensor queries = in_float(projected(own(features.queries), features.map));
  const at::Tensor supports =
      in_float(projected(own(features.supports).flatten(0, 1), features.map)).view({ways, shots, -1});
  // Distances are differences of large numbers.
  const ScopedPrecision full(Precision::kFp32, queries.device());
  const at::Tensor weights = weights_of(queries, supports).transpose(0, 1);           // (ways, queries, shots)
  const at::Tensor prototypes = weights.matmul(supports);                             // (ways, queries, d)
  const at::Tensor distances = (queries.unsqueeze(0) - prototypes).square().sum(-1);  // (ways, queries)
  return -distances.t() / static_cast<double>(features.map.height * features.map.width);
}

}  // namespace stages
