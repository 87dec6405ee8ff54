#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/dataset.h"
#include "stages/few_shot/few_shot_list.h"
#include "stages/model/convolution_layers.h"
#include "stages/model/convolutional_networks.h"
#include "stages/model/layers.h"
#include "stages/model/transformer_block.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// Adds an error for classes of one name, or for one and the same file, in two parts, at the later
/// of them: what is tested would have been trained on. Files are known by the disk, whatever links
/// lead to them.
void check_overlap(const std::array<FewShotPart, kSplitParts>& parts, runner::Diagnostics& errors);

/// The numbers of an episode: a few images of each of some classes (ways, shots), and images to be
/// told apart by them.
struct EpisodeImages {
  std::int64_t ways = 0, shots = 0, queries = 0;  ///< queries of all classes together
  std::int64_t height = 0, width = 0;             ///< of an image
  std::int64_t supports() const { return ways * shots; }
};

/// What episodes such data are. A sample is one: "image" (supports + queries, 3, height, width),
/// the supports first, class by class; "support" (ways, shots); "label" (queries). Throws
/// runner::StageError, which blames the stage at `pointer`, where they are none.
EpisodeImages fitting_episode(const DatasetDescription& data, const std::string& pointer);

/// What a backbone makes of the images of one episode: its maps, flattened channel by channel.
struct EpisodeFeatures {
  at::Tensor supports;  ///< (ways, shots, map.features())
  at::Tensor queries;   ///< (queries, map.features())
  MapShape map;
};

/// The part of a network that tells the queries of an episode apart by its supports.
class EpisodeHead : public PrecisionModule {
 public:
  /// The logits (queries, ways). Throws runner::StageError where the head does not suit such an
  /// episode.
  virtual at::Tensor forward(const EpisodeFeatures& features) const = 0;
};

/// `x` with its last dimension divided by its length, in float32 at least. What is 0 throughout has
/// no direction and stays 0, so that its cosine with anything is 0, and gets the gradient of what
/// it is divided to: nothing becomes NaN.
at::Tensor directions(const at::Tensor& x);

/// A backbone and a head. Children: backbone and head.
class EpisodeNetwork : public PrecisionModule, public OnFrozenBase {
 public:
  EpisodeNetwork(std::shared_ptr<FeatureMaps> backbone, std::shared_ptr<EpisodeHead> head);

  /// What the backbone makes of images (n, 3, height, width), without a graph where it is frozen.
  at::Tensor maps_of(const at::Tensor& images) const;

  /// Of "image" (episodes, supports + queries, 3, height, width), supports first and class by
  /// class, and "support" (episodes, ways, shots), of which only the shape matters: {"logits":
  /// (episodes, queries, ways), "support_features": (episodes, ways, shots, features)}. One episode
  /// after the other goes through, all its images as one batch, so that what one becomes depends on
  /// no other. "features" (episodes, supports + queries, channels, height', width') stand for the
  /// maps of the images.
  NamedTensors forward(const NamedTensors& inputs) const;

  /// From now on the backbone is not trained and runs without a graph. `base` stands for its
  /// weights and buffers.
  void freeze_backbone(std::string base);
  bool is_base(std::string_view weight) const override;
  const std::string& base() const override { return base_; }

  FeatureMaps& backbone() const { return *backbone_; }
  EpisodeHead& head() const { return *head_; }

  std::vector<std::string> notes;  ///< where its weights are from

 private:
  const std::shared_ptr<FeatureMaps> backbone_;
  const std::shared_ptr<EpisodeHead> head_;
  bool is_backbone_frozen_ = false;
  std::string base_;
};

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

/// Prototypes ask and query images answer, one each: every query image is its own key and value.
/// Children: norm, in, which projects both, and out, which is left out where one head is as wide as
/// the features.
class PairAttentionLayer : public PrecisionModule {
 public:
  PairAttentionLayer(std::int64_t width, const FewShotHeadOptions& head,
                     const at::TensorOptions& options);
  /// Of what asks, (1 or queries, ways, width), and the queries, (queries, width): (queries, ways,
  /// width), or of softmax attention (queries, 1, width), the same for all that ask.
  at::Tensor forward(const at::Tensor& asking, const at::Tensor& queries) const;
  /// The cosine of what a pair is projected to, in each head: (queries, ways, heads). In float32 at
  /// least.
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

/// One number for each pair of a query and a class. Children: norm and inner; and out, or, where
/// weights are normalised, parameters `direction` (1, width) and `length` (1, 1): the weight has
/// that length and direction.
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

/// Few-Shot Cosine Transformer (Nguyen and others 2023, arXiv:2211.06828) behind its backbone.
/// Children: attention, mlp and score; parameter prototype_weight (ways, shots, 1), where
/// prototypes are learned.
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

struct CrossHeadOptions {
  std::string pointer;  ///< where they stand, "/model"
  PairAttention attention = PairAttention::kSoftmax;
  std::int64_t width = 128;
};

/// CrossTransformer (Doersch and others 2020, arXiv:2007.11498) behind its backbone, as its
/// comparison in Nguyen and others 2023 has it: one projection makes queries, keys and values, and
/// positions are flattened, so that nothing is matched in space. Each query makes prototypes of its
/// own, of the supports of each class weighted by how near they are; the score is the negative mean
/// squared distance to them, over positions. Children: projection.
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
