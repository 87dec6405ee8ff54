#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/model/transformer_block.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The shape of a tower, using the names of HF's CLIPVisionConfig.
struct VisionTowerOptions {
  BlockOptions block;
  std::int64_t num_hidden_layers = 0;
  std::int64_t patch_size = 0;
  std::int64_t image_size = 0;     ///< height and width in pixels, a multiple of patch_size
  double drop_path = 0;            ///< for the last block; rises in equal steps from 0 at the first
  bool patch_bias = false;         ///< the patch convolution has a bias, as in ViT
  bool norm_before_blocks = true;  ///< a norm before the first block, as in CLIP
  std::int64_t register_tokens = 0;  ///< after the class token, without positions, as in DINOv2

  /// Returns the number of patches of an image, plus one for the class token.
  std::int64_t positions() const {
    return (image_size / patch_size) * (image_size / patch_size) + 1;
  }
};

/// The tokens of an image: the class token, the register tokens and the patches. A vector for its
/// position is added to the class token and to each patch. Children: patch_embedding and
/// position_embedding, and the parameters class_embedding and, if there are any, register_tokens
/// (register_tokens, hidden_size).
class VisionEmbeddings : public PrecisionModule {
 public:
  VisionEmbeddings(const VisionTowerOptions& tower, const at::TensorOptions& options);
  /// Maps (n, 3, image_size, image_size) to (n, tokens, hidden_size).
  at::Tensor forward(const at::Tensor& pixels) const;

 private:
  at::Tensor class_embedding_, register_tokens_;  // the register tokens are undefined if there are
                                                  // none
  std::shared_ptr<PatchEmbedding> patches_;
  std::shared_ptr<PositionEmbedding> positions_;
};

/// CLIP's vision transformer (Radford et al. 2021, arXiv:2103.00020) or, depending on the options,
/// the original one (Dosovitskiy et al. 2020, arXiv:2010.11929) or DINOv2's (Oquab et al. 2023,
/// arXiv:2304.07193). All use the parameter names of HF's `vision_model`:
/// embeddings.{class_embedding, patch_embedding.weight, position_embedding.weight}, pre_layrnorm,
/// encoder.layers.<i>.{self_attn.{k,v,q,out}_proj, layer_norm1, mlp.{fc1,fc2}, layer_norm2},
/// post_layernorm. For the names that other libraries use, see weight_names.h.
///
///   const at::Tensor tokens = tower.forward(pixels);   // (n, tokens, hidden_size)
///   const at::Tensor pooled = tower.pool(tokens);      // (n, hidden_size)
///
/// Uses the dropout of stages/random/dropout.h wherever a probability is not 0. Computes in the
/// type of its weights. Submodules can be found by their dotted names in named_modules(). The
/// weights are uninitialized until they are drawn or loaded.
class VisionTower : public PrecisionModule {
 public:
  explicit VisionTower(const VisionTowerOptions& tower, const at::TensorOptions& options = {});

  /// Returns the input of the first block, of shape (n, tokens, hidden_size). `pixels` has shape
  /// (n, 3, image_size, image_size).
  at::Tensor embed(const at::Tensor& pixels) const;
  /// Returns the last block's output of shape (n, tokens, hidden_size), without a final norm.
  at::Tensor forward(const at::Tensor& pixels) const;
  /// Returns only the class token of forward()'s result, of shape (n, 1, hidden_size). The last
  /// block does not compute the other tokens.
  at::Tensor forward_class_token(const at::Tensor& pixels) const;
  /// Returns the class token after post_layernorm, of shape (n, hidden_size), for a result of
  /// forward() or forward_class_token().
  at::Tensor pool(const at::Tensor& last_hidden_state) const;

  const std::vector<std::shared_ptr<TransformerBlock>>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<VisionEmbeddings> embeddings_;
  std::shared_ptr<LayerNorm> norm_before_blocks_;  // null: no such norm
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_of_pooled_;
};

/// Makes the layers of a tower very narrow and its images very small. The number of layers stays
/// the same.
void shrink(VisionTowerOptions& tower, std::optional<std::int64_t>& image_size,
            std::optional<std::int64_t>& projection_dim);

/// Returns data that suits a tower after shrink(): images of its size, and features of width
/// `width`.
DatasetDescription shrunken_data(DatasetDescription data, std::int64_t width);

/// The feature of the tower that the head classifies. HF's names are in brackets.
enum class Feature {
  kPooled,               ///< the class token after post_layernorm [pooler_output]
  kProjected,            ///< kPooled, projected [image_embeds of CLIPVisionModelWithProjection]
  kProjectedBeforeNorm,  ///< the class token projected without post_layernorm [last_hidden_state[:,
                         ///< 0]]
  kProjectedNormalized,  ///< kProjected divided by its length: CLIP's image embedding, as compared
                         ///< with texts
};

/// The names of the features in recipes.
inline constexpr std::array<std::pair<std::string_view, Feature>, 4> kFeatures = {
    {{"pooled", Feature::kPooled},
     {"projected", Feature::kProjected},
     {"projected_before_norm", Feature::kProjectedBeforeNorm},
     {"projected_normalized", Feature::kProjectedNormalized}}};

/// True if the feature needs a projection.
bool is_projected(Feature feature);

/// The shape of a classifier on top of a tower.
struct ImageClassifierOptions {
  VisionTowerOptions tower;
  Feature feature = Feature::kPooled;
  std::optional<std::int64_t>
      projection_dim;  ///< width of the projection; nullopt: none, and the feature is kPooled
  std::int64_t num_classes = 0;
  double dropout =
      0;  ///< probability that an element of the feature is dropped before the head, in training
  bool projection_bias = false;  ///< as in timm's CLIP, where the projection is a head
  OrdinalHead ordinal =
      OrdinalHead::kNone;  ///< kind of the head; num_classes is the number of its outputs

  std::int64_t feature_width() const {
    return is_projected(feature) ? *projection_dim : tower.block.hidden_size;
  }
};

/// A vision tower and a linear layer on one of its features. Children: vision_model (VisionTower),
/// visual_projection (if there is one), head and dropout.
class ImageClassifier : public PrecisionModule {
 public:
  explicit ImageClassifier(const ImageClassifierOptions& classifier,
                           const at::TensorOptions& options = {});

  /// Maps pixels (n, 3, image_size, image_size) to {"logits": (n, num_classes), "features": (n,
  /// feature_width())}. Dropout is not applied to the returned features.
  NamedTensors forward(const at::Tensor& pixels) const;
  /// Returns only the features of `pixels`, of shape (n, feature_width()).
  at::Tensor features(const at::Tensor& pixels) const;
  /// Returns the logits of shape (n, num_classes) for features returned by features().
  at::Tensor classify(const at::Tensor& features) const;
  /// Returns only the feature, computed from the tower's last hidden state.
  at::Tensor feature(const at::Tensor& last_hidden_state) const;
  /// Projects tokens (n, hidden_size). The classifier must have a projection.
  at::Tensor projected(const at::Tensor& tokens) const;

  const VisionTower& tower() const { return *tower_; }
  const ImageClassifierOptions& options() const { return options_; }

 private:
  const ImageClassifierOptions options_;
  std::shared_ptr<VisionTower> tower_;
  std::shared_ptr<Linear> projection_;  // null: no projection
  std::shared_ptr<Linear> head_;
  std::shared_ptr<Dropout> dropout_;
};

}  // namespace stages
