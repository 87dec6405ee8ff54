#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/model/attached_lora.h"
#include "stages/model/fine_tuned.h"
#include "stages/model/transformer_block.h"
#include "stages/model/vision_tower.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// Which token's output represents a text.
enum class EndToken {
  kHighestId,  ///< the first token with the highest id, which is the end-of-text token in OpenAI's
               ///< weights
  kFirstEnd,   ///< the first end-of-text token, as in newer weights; the first token if there is
               ///< none
};

/// The shape of a text tower, using the names of HF's CLIPTextConfig.
struct TextTowerOptions {
  BlockOptions block;  ///< always causal, regardless of block.is_causal
  std::int64_t num_hidden_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;  ///< number of tokens in the longest text
  EndToken end_token = EndToken::kHighestId;
  std::int64_t end_id = 0;  ///< id of the end-of-text token
};

/// Returns the position of the token that represents each row of `ids` (n, tokens): (n) int64.
at::Tensor end_places(const at::Tensor& ids, EndToken rule, std::int64_t end_id);

/// Returns, for each token, the sum of the token's vector and its position's vector. Children:
/// token_embedding, position_embedding.
class TextEmbeddings : public PrecisionModule {
 public:
  TextEmbeddings(const TextTowerOptions& tower, const at::TensorOptions& options);
  /// Maps (n, tokens) int64 to (n, tokens, hidden_size); at most context_length tokens.
  at::Tensor forward(const at::Tensor& ids) const;

 private:
  std::shared_ptr<PositionEmbedding> tokens_, positions_;  // each is one table
};

/// CLIP's text transformer (Radford et al. 2021, arXiv:2103.00020). The parameters have the names
/// of HF's `text_model`: embeddings.{token_embedding, position_embedding}.weight,
/// encoder.layers.<i>.…, final_layer_norm.
///
/// Attention is causal, so tokens after the end of a text have no effect: texts may be padded with
/// any token, and a batch may be cut to its longest text. The weights are uninitialized until they
/// are drawn or loaded.
class TextTower : public PrecisionModule {
 public:
  explicit TextTower(const TextTowerOptions& tower, const at::TensorOptions& options = {});

  /// Maps the texts' `ids` of shape (n, tokens) to vectors of shape (n, hidden_size).
  at::Tensor forward(const at::Tensor& ids) const;
  /// Returns the input of the first block, of shape (n, tokens, hidden_size).
  at::Tensor embed(const at::Tensor& ids) const { return embeddings_->forward(ids); }
  /// Returns the output of the last block, without the final norm.
  at::Tensor last_hidden_state(const at::Tensor& ids) const;
  /// Applies the final norm to the given tokens.
  at::Tensor normalize(const at::Tensor& tokens) const { return final_norm_->forward(tokens); }

  const std::vector<std::shared_ptr<TransformerBlock>>& blocks() const { return blocks_; }

 private:
  const EndToken end_token_;
  const std::int64_t end_id_;
  std::shared_ptr<TextEmbeddings> embeddings_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> final_norm_;
};

/// The shape of a CLIP model.
struct ClipOptions {
  VisionTowerOptions image;
  TextTowerOptions text;
  std::int64_t projection_dim = 0;  ///< width of the common space
  std::int64_t class_count = 0;     ///< outputs of the class head; 0: no class head
  bool has_logit_bias = false;
};

/// CLIP (Radford et al. 2021, arXiv:2103.00020): two towers with projections into a common space,
/// and the logarithm of the factor by which similarities in that space are scaled. Children, with
/// HF's names: vision_model, text_model, visual_projection, text_projection and the parameter
/// logit_scale. Two parts are optional: a class_head, which is a linear layer over the normalized
/// image embedding, and the parameter logit_bias, which the sigmoid loss adds to similarities.
class ClipNetwork : public PrecisionModule {
 public:
  explicit ClipNetwork(const ClipOptions& clip, const at::TensorOptions& options = {});

  /// Embeds pixels (n, 3, size, size) in the common space: (n, projection_dim), of length 1.
  at::Tensor embed_images(const at::Tensor& pixels) const;
  /// Embeds token IDs (m, tokens), int64, in the common space: (m, projection_dim), of length 1.
  at::Tensor embed_texts(const at::Tensor& ids) const;
  /// Returns logits (n, class_count) for image embeddings. Throws std::logic_error if there is no
  /// class head.
  at::Tensor classify(const at::Tensor& image_embeddings) const;

  const ClipOptions& options() const { return options_; }
  const VisionTower& image_tower() const { return *images_; }
  const TextTower& text_tower() const { return *texts_; }
  /// Projects vectors (n, hidden_size) that represent images or texts into the common space: (n,
  /// projection_dim), not normalized.
  at::Tensor project_images(const at::Tensor& pooled) const {
    return image_projection_->forward(pooled);
  }
  at::Tensor project_texts(const at::Tensor& pooled) const {
    return text_projection_->forward(pooled);
  }
  at::Tensor& logit_scale() { return logit_scale_; }
  const at::Tensor& logit_scale() const { return logit_scale_; }
  at::Tensor& logit_bias() { return logit_bias_; }
  const at::Tensor& logit_bias() const { return logit_bias_; }

  std::vector<std::string> notes;  ///< where its weights come from

 private:
  const ClipOptions options_;
  at::Tensor logit_scale_;  // a scalar
  at::Tensor logit_bias_;   // a scalar; undefined if there is none
  std::shared_ptr<VisionTower> images_;
  std::shared_ptr<TextTower> texts_;
  std::shared_ptr<Linear> image_projection_, text_projection_,
      class_head_;  // the last is null if there is none
};

/// The options in the `adapters` section of model.clip.
struct ClipAdapterConfig {
  std::string pointer;  ///< location in the recipe, "/model/adapters"
  LoraOptions options;
  std::optional<std::string>
      adapter;  ///< a folder in peft's format to start from; nullopt: a new adapter
};

/// A CLIP model with frozen weights, except for the low-rank adapters in its towers and its class
/// head.
class AdaptedClip : public ClipNetwork, public FrozenBase {
 public:
  /// Initializes only the adapters, as a function of `seed`; on the Meta device, weights have no
  /// values. Only the trained parameters require gradients. Throws runner::StageError at an option
  /// of `config` if its targets are not layers of the towers.
  AdaptedClip(const ClipOptions& clip, const ClipAdapterConfig& config, std::uint64_t seed,
              const at::TensorOptions& options = {});

  /// Loads the adapter that `config` specifies, if any, and adds notes on options that have no
  /// effect. Throws runner::StageError if the adapter does not match the network.
  void begin(const ClipAdapterConfig& config);
  void freeze(std::string base) { FrozenBase::freeze(*this, std::move(base)); }

  const AttachedLora& lora() const { return lora_; }

  std::optional<std::string> weights_reference;  ///< reference to the base weights; nullopt: they
                                                 ///< are random

 private:
  AttachedLora lora_;
};

/// Returns the weights of a CLIP model with both towers under the names of transformers' CLIPModel,
/// as in model.safetensors. The class head is not included, since CLIPModel has none. The network
/// must have no adapters.
NamedTensors exported(const ClipNetwork& network);

/// Returns the config.json from which transformers recreates that CLIPModel.
nlohmann::ordered_json exported_config(const ClipOptions& options);

}  // namespace stages
