#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "stages/few_shot/episode_network.h"
#include "stages/few_shot/episode_images.h"
#include "stages/model/layers.h"
#include "stages/model/transformer_block.h"

namespace stages {

/// The weight of a query image for a prototype.
enum class PairAttention {
  kCosine,   ///< of what both are projected to, in each head
  kSoftmax,  ///< of their scaled product over the keys, of which there is one: 1
};
inline constexpr std::array<std::pair<std::string_view, PairAttention>, 2> kPairAttentions = {
    {{"cosine", PairAttention::kCosine}, {"softmax", PairAttention::kSoftmax}}};

/// What is normalised before a pair's score.
enum class ScoreNorm {
  kWay,      ///< each feature over the classes of the episode
  kFeature,  ///< the features of each pair
  kNone,
};
inline constexpr std::array<std::pair<std::string_view, ScoreNorm>, 3> kScoreNorms = {
    {{"way", ScoreNorm::kWay}, {"feature", ScoreNorm::kFeature}, {"none", ScoreNorm::kNone}}};

struct PairScoreOptions {
  std::int64_t width = 64;
  bool weight_normalized = true;  ///< and without bias
  ScoreNorm norm = ScoreNorm::kWay;
  double scale = 2;
};

struct FewShotHeadOptions {
  std::string pointer;  ///< where they stand, "/model"
  bool learned_prototypes = true;
  PairAttention attention = PairAttention::kCosine;
  std::int64_t depth = 1, heads = 8, head_width = 64, mlp_width = 512;
  PairScoreOptions score;
};

/// Prototypes ask and query images answer, one each: every query image is its own key and value. Children: norm, in,
/// which projects both, and out, which is left out where one head is as wide as the features.
class PairAttentionLayer : public PrecisionModule {
 public:
  PairAttentionLayer(std::int64_t width, const FewShotHeadOptions& head, const at::TensorOptions& options);
  /// Of what asks, (1 or queries, ways, width), and the queries, (queries, width): (queries, ways, width), or of
  /// softmax attention (queries, 1, width), the same for all that ask.
  at::Tensor forward(const at::Tensor& asking, const at::Tensor& queries) const;
  /// The cosine of what a pair is projected to, in each head: (queries, ways, heads). In float32 at least.
  at::Tensor cosines(const at::Tensor& asking, const at::Tensor& queries) const;

 private:
  /// (…, width) to (…, heads, head width).
  at::Tensor projected(const at::Tensor& x) const;
  at::Tensor cosines_of(const at::Tensor& asking, const at::Tensor& projected_queries) const;

  const PairAttention attention_;
  const std::int64_t heads_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> in_, out_;  // no out: what the heads give is the result
};

/// x + mlp(norm(x)).
class ResidualMlp : public RecomputableModule {
 public:
  ResidualMlp(std::int64_t width, std::int64_t inner_width, const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Mlp> mlp_;
};

/// One number for each pair of a query and a class. Children: norm and inner; and out, or, where weights are
/// normalised, parameters `direction` (1, width) and `length` (1, 1): the weight has that length and direction.
class PairScore : public PrecisionModule {
 public:
  PairScore(std::int64_t inputs, const PairScoreOptions& score, const at::TensorOptions& options);
  /// (queries, ways, inputs) to (queries, ways), in float32 at least.
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor direction, length;  // undefined: there is `out`

 private:
  const PairScoreOptions score_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> inner_, out_;
};

/// Few-Shot Cosine Transformer (Nguyen and others 2023, arXiv:2211.06828) behind its backbone. Children: attention, mlp
/// and score; parameter prototype_weight (ways, shots, 1), where prototypes are learned.
class FewShotHead : public EpisodeHead {
 public:
  FewShotHead(const FewShotHeadOptions& head, const EpisodeImages& episode, const MapShape& map,
              const at::TensorOptions& options);
  at::Tensor forward(const EpisodeFeatures& features) const override;
  /// (ways, features) of (ways, shots, features).
  at::Tensor prototypes(const at::Tensor& supports) const;

  at::Tensor prototype_weight;  // undefined: prototypes are means

 private:
  const FewShotHeadOptions options_;
  const MapShape map_;
  std::shared_ptr<PairAttentionLayer> attention_;
  std::shared_ptr<ResidualMlp> mlp_;
  std::shared_ptr<PairScore> score_;
};

}  // namespace stages
