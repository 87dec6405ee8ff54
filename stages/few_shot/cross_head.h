#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stages/model/convolution_layers.h"
#include "stages/few_shot/episode_network.h"
#include "stages/few_shot/few_shot_head.h"

namespace stages {

struct CrossHeadOptions {
  std::string pointer;  ///< where they stand, "/model"
  PairAttention attention = PairAttention::kSoftmax;
  std::int64_t width = 128;
};

/// CrossTransformer (Doersch and others 2020, arXiv:2007.11498) behind its backbone, as its comparison in Nguyen and
/// others 2023 has it: one projection makes queries, keys and values, and positions are flattened, so that nothing is
/// matched in space. Each query makes prototypes of its own, of the supports of each class weighted by how near they
/// are; the score is the negative mean squared distance to them, over positions. Children: projection.
class CrossHead : public EpisodeHead {
 public:
  CrossHead(const CrossHeadOptions& head, const MapShape& map, const at::TensorOptions& options);
  at::Tensor forward(const EpisodeFeatures& features) const override;

 private:
  /// (n, features) to (n, width · positions).
  at::Tensor projected(const at::Tensor& features, const MapShape& map) const;
  /// (queries, ways, shots) of (queries, d) and (ways, shots, d).
  at::Tensor weights_of(const at::Tensor& queries, const at::Tensor& supports) const;

  const CrossHeadOptions options_;
  const std::int64_t channels_;
  std::shared_ptr<Convolution> projection_;
};

}  // namespace stages
