#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "stages/model/vision_tower.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// What of the tower the head sees. HF's names are in brackets.
enum class Feature {
  kPooled,               ///< the class token after post_layernorm [pooler_output]
  kProjected,            ///< the same, projected [image_embeds of CLIPVisionModelWithProjection]
  kProjectedBeforeNorm,  ///< the class token projected without post_layernorm [last_hidden_state[:, 0]]
};

/// What recipes call them.
inline constexpr std::array<std::pair<std::string_view, Feature>, 3> kFeatures = {
    {{"pooled", Feature::kPooled},
     {"projected", Feature::kProjected},
     {"projected_before_norm", Feature::kProjectedBeforeNorm}}};

/// True if the feature is a projection, so that there must be one.
bool is_projected(Feature feature);

/// The shape of a classifier on top of a tower.
struct ImageClassifierOptions {
  VisionTowerOptions tower;
  Feature feature = Feature::kPooled;
  std::optional<std::int64_t> projection_dim;  ///< width of the projection; nullopt: none, then the feature is kPooled
  std::int64_t num_classes = 0;
  double dropout = 0;            ///< probability that an element of the feature does not reach the head, in training
  bool projection_bias = false;  ///< as timm's CLIP has it, whose projection is its head

  std::int64_t feature_width() const { return is_projected(feature) ? *projection_dim : tower.block.hidden_size; }
};

/// A vision tower and a linear layer over one of its features. Children: vision_model (VisionTower), visual_projection
/// (where there is one), head and dropout.
class ImageClassifier : public PrecisionModule {
 public:
  explicit ImageClassifier(const ImageClassifierOptions& classifier, const at::TensorOptions& options = {});

  /// Of pixels (n, 3, image_size, image_size): {"logits": (n, num_classes), "features": (n, feature_width())}; nothing
  /// of the features is dropped.
  NamedTensors forward(const at::Tensor& pixels) const;
  /// The features of pixels alone, (n, feature_width()).
  at::Tensor features(const at::Tensor& pixels) const;
  /// The logits of such features.
  at::Tensor classify(const at::Tensor& features) const;
  /// The feature alone, of the tower's last hidden state.
  at::Tensor feature(const at::Tensor& last_hidden_state) const;
  /// The projection of some tokens (n, hidden_size); there must be one.
  at::Tensor projected(const at::Tensor& tokens) const;

  const VisionTower& tower() const { return *tower_; }
  const ImageClassifierOptions& options() const { return options_; }

 private:
  const ImageClassifierOptions options_;
  std::shared_ptr<VisionTower> tower_;
  std::shared_ptr<Linear> projection_;  // null: none
  std::shared_ptr<Linear> head_;
  std::shared_ptr<Dropout> dropout_;
};

}  // namespace stages
