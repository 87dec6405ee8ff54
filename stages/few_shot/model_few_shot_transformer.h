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

/// Adds an error at the later part if two parts share a class name or a file: the model would be
/// tested on data it was trained on. Files are compared on disk, after following links.
void check_overlap(const std::array<FewShotPart, kSplitParts>& parts, runner::Diagnostics& errors);

/// The dimensions of an episode: a few support images (shots) for each of several classes (ways),
/// and query images to classify.
struct EpisodeImages {
  std::int64_t ways = 0, shots = 0, queries = 0;  ///< `queries` is the total over all classes
  std::int64_t height = 0, width = 0;             ///< of an image
  std::int64_t supports() const { return ways * shots; }
};

/// Returns the dimensions of the episodes in the data. Each sample is an episode: "image" (supports
/// + queries, 3, height, width), the supports first, class by class; "support" (ways, shots);
/// "label" (queries). Throws runner::StageError at `pointer` if the samples are not episodes.
EpisodeImages fitting_episode(const DatasetDescription& data, const std::string& pointer);

/// A backbone's output for the images of one episode: its feature maps, flattened channel by
/// channel.
struct EpisodeFeatures {
  at::Tensor supports;  ///< (ways, shots, map.features())
  at::Tensor queries;   ///< (queries, map.features())
  MapShape map;
};

/// The module that classifies an episode's queries, given its supports.
class EpisodeHead : public PrecisionModule {
 public:
  /// Returns the logits (queries, ways). Throws runner::StageError if the head does not suit the
  /// episode.
  virtual at::Tensor forward(const EpisodeFeatures& features) const = 0;
};

/// Returns `x` divided by its length along the last dimension, in float32 or wider. A zero vector
/// has no direction: it stays 0, its cosine with any vector is 0, and the gradient of the result is
/// passed on unchanged. The result is never NaN.
at::Tensor directions(const at::Tensor& x);

/// A backbone and a head. Child modules: backbone and head.
class EpisodeNetwork : public PrecisionModule, public OnFrozenBase {
 public:
  EpisodeNetwork(std::shared_ptr<FeatureMaps> backbone, std::shared_ptr<EpisodeHead> head);

  /// Returns the backbone's feature maps for images (n, 3, height, width), without an autograd
  /// graph if the backbone is frozen.
  at::Tensor maps_of(const at::Tensor& images) const;

  /// Reads "image" (episodes, supports + queries, 3, height, width), supports first and class by
  /// class, and the shape of "support" (episodes, ways, shots). Returns {"logits": (episodes,
  /// queries, ways), "support_features": (episodes, ways, shots, features)}. Episodes are processed
  /// one after the other, each as one batch of images, so an episode's result does not depend on
  /// other episodes. Instead of "image", the inputs may contain feature maps, "features" (episodes,
  /// supports + queries, channels, height', width').
  NamedTensors forward(const NamedTensors& inputs) const;

  /// Freezes the backbone: from now on it is not trained and runs without an autograd graph. `base`
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
  kSoftmax,  ///< softmax of their scaled product over the keys; always 1, since there is only one
             ///< key
};
inline constexpr std::array<std::pair<std::string_view, PairAttention>, 2> kPairAttentions = {
    {{"cosine", PairAttention::kCosine}, {"softmax", PairAttention::kSoftmax}}};

/// Which values are normalized before a pair is scored.
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
  std::string pointer;  ///< location of the options in the recipe, "/model"
  bool learned_prototypes = true;
  PairAttention attention = PairAttention::kCosine;
  std::int64_t depth = 1, heads = 8, head_width = 64, mlp_width = 512;
  PairScoreOptions score;
};

/// Cross-attention with prototypes as queries and a single query image as key and value. Child
/// modules: norm; in, which projects both; and out, which is omitted if there is one head as wide
/// as the features.
class PairAttentionLayer : public PrecisionModule {
 public:
  PairAttentionLayer(std::int64_t width, const FewShotHeadOptions& head,
                     const at::TensorOptions& options);
  /// Maps prototypes `asking` (1 or queries, ways, width) and `queries` (queries, width) to
  /// (queries, ways, width). Softmax attention does not depend on `asking` and returns (queries, 1,
  /// width).
  at::Tensor forward(const at::Tensor& asking, const at::Tensor& queries) const;
  /// Returns the cosine of the projections of each prototype and query, in each head: (queries,
  /// ways, heads), in float32 or wider.
  at::Tensor cosines(const at::Tensor& asking, const at::Tensor& queries) const;

 private:
  /// Maps (…, width) to (…, heads, head width).
  at::Tensor projected(const at::Tensor& x) const;
  at::Tensor cosines_of(const at::Tensor& asking, const at::Tensor& projected_queries) const;

  const PairAttention attention_;
  const std::int64_t heads_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> in_, out_;  // if out_ is null, the heads' output is the result
};

/// Computes x + mlp(norm(x)).
class ResidualMlp : public RecomputableModule {
 public:
  ResidualMlp(std::int64_t width, std::int64_t inner_width, const at::TensorOptions& options);
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Mlp> mlp_;
};

/// Computes a score for each query and class. Child modules: norm, inner and out. With weight
/// normalization, the parameters `direction` (1, width) and `length` (1, 1) replace out.
class PairScore : public PrecisionModule {
 public:
  PairScore(std::int64_t inputs, const PairScoreOptions& score, const at::TensorOptions& options);
  /// Maps (queries, ways, inputs) to (queries, ways), in float32 or wider.
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor direction, length;  // undefined: `out` is used

 private:
  const PairScoreOptions score_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> inner_, out_;
};

/// The head of the Few-Shot Cosine Transformer (Nguyen et al. 2023, arXiv:2211.06828). Child
/// modules: attention, mlp and score. Parameter: prototype_weight (ways, shots, 1), if prototypes
/// are learned.
class FewShotHead : public EpisodeHead {
 public:
  FewShotHead(const FewShotHeadOptions& head, const EpisodeImages& episode, const MapShape& map,
              const at::TensorOptions& options);
  at::Tensor forward(const EpisodeFeatures& features) const override;
  /// Computes the prototypes (ways, features) of supports (ways, shots, features).
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
  std::string pointer;  ///< location of the options in the recipe, "/model"
  PairAttention attention = PairAttention::kSoftmax;
  std::int64_t width = 128;
};

/// The head of CrossTransformer (Doersch et al. 2020, arXiv:2007.11498), in the form that Nguyen et
/// al. (2023) use for comparison: one projection computes queries, keys and values, and positions
/// are flattened, so different positions are not matched. For each query, the prototype of a class
/// is the mean of the class's supports, weighted by their similarity to the query. The score is the
/// negative squared distance to the prototype, averaged over positions. Child module: projection.
class CrossHead : public EpisodeHead {
 public:
  CrossHead(const CrossHeadOptions& head, const MapShape& map, const at::TensorOptions& options);
  at::Tensor forward(const EpisodeFeatures& features) const override;

 private:
  /// Maps (n, features) to (n, width · positions).
  at::Tensor projected(const at::Tensor& features, const MapShape& map) const;
  /// Returns the weight of each support for each query, of shape (queries, ways, shots). `queries`
  /// has shape (queries, d), and `supports` (ways, shots, d).
  at::Tensor weights_of(const at::Tensor& queries, const at::Tensor& supports) const;

  const CrossHeadOptions options_;
  const std::int64_t channels_;
  std::shared_ptr<Convolution> projection_;
};

}  // namespace stages
