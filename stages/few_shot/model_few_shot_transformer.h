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

/// Adds an error, at the later part, if two parts have a class of the same name or the same file:
/// the test data would have been trained on. Files are compared on disk, through any links.
void check_overlap(const std::array<FewShotPart, kSplitParts>& parts, runner::Diagnostics& errors);

/// The sizes of an episode: a few images of each of some classes (ways, shots), and query images to
/// classify by them.
struct EpisodeImages {
  std::int64_t ways = 0, shots = 0, queries = 0;  ///< `queries` counts all classes together
  std::int64_t height = 0, width = 0;             ///< of an image
  std::int64_t supports() const { return ways * shots; }
};

/// The sizes of the episodes in such data. Each sample is an episode: "image" (supports + queries,
/// 3, height, width), the supports first, class by class; "support" (ways, shots); "label"
/// (queries). Throws runner::StageError, blaming the stage at `pointer`, if the samples are not
/// episodes.
EpisodeImages fitting_episode(const DatasetDescription& data, const std::string& pointer);

/// A backbone's output for the images of one episode: its feature maps, flattened channel by
/// channel.
struct EpisodeFeatures {
  at::Tensor supports;  ///< (ways, shots, map.features())
  at::Tensor queries;   ///< (queries, map.features())
  MapShape map;
};

/// The part of a network that classifies an episode's queries by its supports.
class EpisodeHead : public PrecisionModule {
 public:
  /// Returns the logits (queries, ways). Throws runner::StageError if the head does not suit such
  /// an episode.
  virtual at::Tensor forward(const EpisodeFeatures& features) const = 0;
};

/// `x` divided by its length along the last dimension, in float32 at least. A zero vector has no
/// direction: it stays 0, so that its cosine with anything is 0, and its gradient is that of the
/// result. Nothing becomes NaN.
at::Tensor directions(const at::Tensor& x);

/// A backbone and a head. Child modules: backbone and head.
class EpisodeNetwork : public PrecisionModule, public OnFrozenBase {
 public:
  EpisodeNetwork(std::shared_ptr<FeatureMaps> backbone, std::shared_ptr<EpisodeHead> head);

  /// The backbone's feature maps of images (n, 3, height, width), without a graph if it is frozen.
  at::Tensor maps_of(const at::Tensor& images) const;

  /// Takes "image" (episodes, supports + queries, 3, height, width), supports first and class by
  /// class, and "support" (episodes, ways, shots), of which only the shape matters. Returns
  /// {"logits": (episodes, queries, ways), "support_features": (episodes, ways, shots, features)}.
  /// Episodes are processed one after the other, all images of one as one batch, so that an
  /// episode's result does not depend on the others. "features" (episodes, supports + queries,
  /// channels, height', width') can be given in place of the images, as their feature maps.
  NamedTensors forward(const NamedTensors& inputs) const;

  /// Freezes the backbone: it is not trained and runs without a graph from now on. `base`
  /// identifies its weights and buffers.
  void freeze_backbone(std::string base);
  bool is_base(std::string_view weight) const override;
  const std::string& base() const override { return base_; }

  FeatureMaps& backbone() const { return *backbone_; }
  EpisodeHead& head() const { return *head_; }

  std::vector<std::string> notes;  ///< the origin of its weights

 private:
  const std::shared_ptr<FeatureMaps> backbone_;
  const std::shared_ptr<EpisodeHead> head_;
  bool is_backbone_frozen_ = false;
  std::string base_;
};

/// The weight of a query image for a prototype.
enum class PairAttention {
  kCosine,   ///< cosine of the projections of both, in each head
  kSoftmax,  ///< softmax of their scaled product over the keys; there is only one key, so it is 1
};
inline constexpr std::array<std::pair<std::string_view, PairAttention>, 2> kPairAttentions = {
    {{"cosine", PairAttention::kCosine}, {"softmax", PairAttention::kSoftmax}}};

/// What is normalized before a pair is scored.
enum class ScoreNorm {
  kWay,      ///< each feature over the classes of the episode
  kFeature,  ///< the features of each pair
  kNone,
};
inline constexpr std::array<std::pair<std::string_view, ScoreNorm>, 3> kScoreNorms = {
    {{"way", ScoreNorm::kWay}, {"feature", ScoreNorm::kFeature}, {"none", ScoreNorm::kNone}}};

struct PairScoreOptions {
  std::int64_t width = 64;
  bool weight_normalized = true;  ///< weight normalization, without bias
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

/// Cross-attention with prototypes as queries and one query image each as key and value. Child
/// modules: norm; in, which projects both; and out, which is omitted if there is one head as wide
/// as the features.
class PairAttentionLayer : public PrecisionModule {
 public:
  PairAttentionLayer(std::int64_t width, const FewShotHeadOptions& head,
                     const at::TensorOptions& options);
  /// `asking` (1 or queries, ways, width) and `queries` (queries, width) give (queries, ways,
  /// width). Softmax attention gives (queries, 1, width), the same for every `asking`.
  at::Tensor forward(const at::Tensor& asking, const at::Tensor& queries) const;
  /// The cosine of the projections of each pair, in each head: (queries, ways, heads). In float32
  /// at least.
  at::Tensor cosines(const at::Tensor& asking, const at::Tensor& queries) const;

 private:
  /// (…, width) to (…, heads, head width).
  at::Tensor projected(const at::Tensor& x) const;
  at::Tensor cosines_of(const at::Tensor& asking, const at::Tensor& projected_queries) const;

  const PairAttention attention_;
  const std::int64_t heads_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> in_, out_;  // no out: the heads' output is the result
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

/// A score for each pair of a query and a class. Child modules: norm and inner; and out, or, with
/// weight normalization, the parameters `direction` (1, width) and `length` (1, 1) of the weight.
class PairScore : public PrecisionModule {
 public:
  PairScore(std::int64_t inputs, const PairScoreOptions& score, const at::TensorOptions& options);
  /// (queries, ways, inputs) to (queries, ways), in float32 at least.
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor direction, length;  // undefined: `out` is used

 private:
  const PairScoreOptions score_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> inner_, out_;
};

/// The head of the Few-Shot Cosine Transformer (Nguyen and others 2023, arXiv:2211.06828), on top
/// of its backbone. Child modules: attention, mlp and score. Parameter: prototype_weight (ways,
/// shots, 1), if prototypes are learned.
class FewShotHead : public EpisodeHead {
 public:
  FewShotHead(const FewShotHeadOptions& head, const EpisodeImages& episode, const MapShape& map,
              const at::TensorOptions& options);
  at::Tensor forward(const EpisodeFeatures& features) const override;
  /// (ways, shots, features) to (ways, features).
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

/// The head of CrossTransformer (Doersch and others 2020, arXiv:2007.11498), on top of its
/// backbone, in the form used for comparison by Nguyen and others 2023: one projection makes
/// queries, keys and values, and positions are flattened, so that nothing is matched in space. For
/// each query, the prototype of a class is the mean of its supports weighted by their similarity to
/// the query. The score is the negative mean squared distance to the prototype, over positions.
/// Child modules: projection.
class CrossHead : public EpisodeHead {
 public:
  CrossHead(const CrossHeadOptions& head, const MapShape& map, const at::TensorOptions& options);
  at::Tensor forward(const EpisodeFeatures& features) const override;

 private:
  /// (n, features) to (n, width · positions).
  at::Tensor projected(const at::Tensor& features, const MapShape& map) const;
  /// `queries` (queries, d) and `supports` (ways, shots, d) to (queries, ways, shots).
  at::Tensor weights_of(const at::Tensor& queries, const at::Tensor& supports) const;

  const CrossHeadOptions options_;
  const std::int64_t channels_;
  std::shared_ptr<Convolution> projection_;
};

}  // namespace stages
