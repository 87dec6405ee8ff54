#include "stages/few_shot/few_shot_head.h"

#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/numerics/precision.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr double kLayerNormEpsilon = 1e-5;

at::Tensor float_at_least(const at::Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

/// "5 ways of 1 shot".
std::string episode_text(std::int64_t ways, std::int64_t shots) {
  return std::to_string(ways) + (ways == 1 ? " way" : " ways") + " of " + std::to_string(shots) +
         (shots == 1 ? " shot" : " shots");
}

std::string map_text(const MapShape& map) {
  return std::to_string(map.channels) + " x " + std::to_string(map.height) + " x " + std::to_string(map.width);
}

}  // namespace

PairAttentionLayer::PairAttentionLayer(std::int64_t width, const FewShotHeadOptions& head,
                                       const at::TensorOptions& options)
    : attention_(head.attention),
      heads_(head.heads),
      norm_(register_module("norm", std::make_shared<LayerNorm>(width, kLayerNormEpsilon, options))),
      in_(register_module(
          "in", std::make_shared<Linear>(width, head.heads * head.head_width, /*with_bias=*/false, options))) {
  if (head.heads == 1 && head.head_width == width) return;
  out_ = register_module("out",
                         std::make_shared<Linear>(head.heads * head.head_width, width, /*with_bias=*/true, options));
}

at::Tensor PairAttentionLayer::projected(const at::Tensor& x) const {
  return in_->forward(norm_->forward(x)).unflatten(-1, {heads_, -1});
}

at::Tensor PairAttentionLayer::cosines_of(const at::Tensor& asking, const at::Tensor& projected_queries) const {
  return (directions(projected(asking)) * directions(projected_queries).unsqueeze(1)).sum(-1);
}

at::Tensor PairAttentionLayer::cosines(const at::Tensor& asking, const at::Tensor& queries) const {
  const OwnPrecision own(*this);
  return cosines_of(own(asking), projected(own(queries)));
}

at::Tensor PairAttentionLayer::forward(const at::Tensor& asking, const at::Tensor& queries) const {
  const OwnPrecision own(*this);
  const at::Tensor values = projected(own(queries));  // (queries, heads, head width)
  at::Tensor seen;
  switch (attention_) {
    case PairAttention::kCosine:
      seen = (cosines_of(own(asking), values).unsqueeze(-1) * values.unsqueeze(1)).flatten(2);
      break;
    case PairAttention::kSoftmax:
      // The softmax over one key is 1, whatever asks, and its gradient 0.
      seen = values.flatten(1).unsqueeze(1);
      break;
  }
  return out_ ? out_->forward(seen) : seen;
}

ResidualMlp::ResidualMlp(std::int64_t width, std::int64_t inner_width, const at::TensorOptions& options)
    : norm_(register_module("norm", std::make_shared<LayerNorm>(width, kLayerNormEpsilon, options))),
      mlp_(register_module("mlp", std::make_shared<Mlp>(width, inner_width, Activation::kGelu, options))) {}

at::Tensor ResidualMlp::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return mlp_->forward(norm_->forward(x)) + x;
}

PairScore::PairScore(std::int64_t inputs, const PairScoreOptions& score, const at::TensorOptions& options)
    : score_(score),
      norm_(register_module("norm", std::make_shared<LayerNorm>(inputs, kLayerNormEpsilon, options))),
      inner_(register_module("inner", std::make_shared<Linear>(inputs, score.width, /*with_bias=*/true, options))) {
  if (!score.weight_normalized) {
    out_ = register_module("out", std::make_shared<Linear>(score.width, 1, /*with_bias=*/true, options));
    return;
  }
  direction = register_parameter("direction", torch::empty({1, score.width}, options));
  length = register_parameter("length", torch::empty({1, 1}, options));
}

at::Tensor PairScore::forward(const at::Tensor& input) const {
  constexpr double kLeastLength = 1e-5;
  constexpr std::int64_t kWays = 1, kFeatures = 2;
  const OwnPrecision own(*this);
  const at::Tensor inner = inner_->forward(norm_->forward(own(input)));
  const ScopedPrecision full(Precision::kFp32, inner.device());
  at::Tensor x = float_at_least(inner);
  if (score_.norm != ScoreNorm::kNone) {
    const std::int64_t over = score_.norm == ScoreNorm::kWay ? kWays : kFeatures;
    x = x / (x.norm(2, {over}, /*keepdim=*/true) + kLeastLength);
  }
  const at::Tensor scores = out_ ? out_->forward(x) : torch::linear(x, length * directions(direction));
  return scores.squeeze(-1) * score_.scale;
}

FewShotHead::FewShotHead(const FewShotHeadOptions& head, const EpisodeImages& episode, const MapShape& map,
                         const at::TensorOptions& options)
    : options_(head),
      map_(map),
      attention_(register_module("attention", std::make_shared<PairAttentionLayer>(map.features(), head, options))),
      mlp_(register_module("mlp", std::make_shared<ResidualMlp>(map.features(), head.mlp_width, options))),
      score_(register_module("score", std::make_shared<PairScore>(map.features(), head.score, options))) {
  if (!head.learned_prototypes) return;
  prototype_weight = register_parameter("prototype_weight", torch::empty({episode.ways, episode.shots, 1}, options));
}

at::Tensor FewShotHead::prototypes(const at::Tensor& supports) const {
  if (!prototype_weight.defined()) return float_at_least(supports).mean(1);
  const std::int64_t ways = prototype_weight.size(0), shots = prototype_weight.size(1);
  if (supports.size(0) != ways || supports.size(1) != shots) {
    throw StageError(ErrorCode::kOptionConflict, "the prototypes are learned for episodes of " +
                                                     episode_text(ways, shots) + ", and these have " +
                                                     episode_text(supports.size(0), supports.size(1)))
        .at("/prototype")
        .in_stage(options_.pointer)
        .with_help("train and evaluate with the same ways and shots, or train with 'prototype: mean'");
  }
  return (torch::softmax(prototype_weight, /*dim=*/1) * float_at_least(supports)).sum(1);
}

at::Tensor FewShotHead::forward(const EpisodeFeatures& features) const {
  const OwnPrecision own(*this);
  if (features.map != map_) {
    throw StageError(ErrorCode::kOptionConflict, "the model is made for features of " + map_text(map_) +
                                                     ", and these images give " + map_text(features.map))
        .in_stage(options_.pointer)
        .with_help("train and evaluate with images of the same size");
  }
  const at::Tensor queries = own(features.queries);
  at::Tensor x = prototypes(own(features.supports)).unsqueeze(0);
  for (std::int64_t layer = 0; layer < options_.depth; ++layer) x = mlp_->forward(attention_->forward(x, queries) + x);
  return score_->forward(x);
}

}  // namespace stages
