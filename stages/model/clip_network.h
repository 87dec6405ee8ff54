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

/// The token whose output represents a text.
enum class EndToken {
  kHighestId,  ///< the first one with the highest id, as in OpenAI's weights, whose end of text has
               ///< it
  kFirstEnd,   ///< the first end of text, as in newer ones; the first token where there is none
};

/// The shape of a text tower, by the names of HF's CLIPTextConfig.
struct TextTowerOptions {
  BlockOptions block;  ///< causal, whatever it says
  std::int64_t num_hidden_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;  ///< tokens of the longest text
  EndToken end_token = EndToken::kHighestId;
  std::int64_t end_id = 0;  ///< the end of text's
};

/// For each row of `ids` (n, tokens), int64, the place of the token that represents it, (n).
at::Tensor end_places(const at::Tensor& ids, EndToken rule, std::int64_t end_id);

/// A vector for each token, and one for each position. Children: token_embedding,
/// position_embedding.
class TextEmbeddings : public PrecisionModule {
 public:
  TextEmbeddings(const TextTowerOptions& tower, const at::TensorOptions& options);
  /// (n, tokens) int64 to (n, tokens, hidden_size); at most context_length tokens.
  at::Tensor forward(const at::Tensor& ids) const;

 private:
  std::shared_ptr<PositionEmbedding> tokens_, positions_;  // a table each
};

/// CLIP's text transformer (Radford et al. 2021, arXiv:2103.00020). The parameter names are those
/// of HF's `text_model`: embeddings.{token_embedding, position_embedding}.weight,
/// encoder.layers.<i>.…, final_layer_norm.
///
/// Since attention is causal, what follows the end of a text changes nothing: texts may be padded
/// with any token, and cut to the longest of them. The weights are unset until somebody initialises
/// or loads them.
class TextTower : public PrecisionModule {
 public:
  explicit TextTower(const TextTowerOptions& tower, const at::TensorOptions& options = {});

  /// What represents each text, (n, hidden_size), of its `ids` (n, tokens).
  at::Tensor forward(const at::Tensor& ids) const;
  /// What enters the first block, (n, tokens, hidden_size).
  at::Tensor embed(const at::Tensor& ids) const { return embeddings_->forward(ids); }
  /// What leaves the last block, without the final norm.
  at::Tensor last_hidden_state(const at::Tensor& ids) const;
  /// The final norm of some tokens.
  at::Tensor normalize(const at::Tensor& tokens) const { return final_norm_->forward(tokens); }

  const std::vector<std::shared_ptr<TransformerBlock>>& blocks() const { return blocks_; }

 private:
  const EndToken end_token_;
  const std::int64_t end_id_;
  std::shared_ptr<TextEmbeddings> embeddings_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> final_norm_;
};

/// The shape of a CLIP.
struct ClipOptions {
  VisionTowerOptions image;
  TextTowerOptions text;
  std::int64_t projection_dim = 0;  ///< width of the common space
  std::int64_t class_count = 0;     ///< outputs of the class head; 0: it has none
};

/// CLIP (Radford et al. 2021, arXiv:2103.00020): two towers whose outputs are projected into one
/// space, and the logarithm of the factor by which the similarities there are multiplied. Children
/// by HF's names: vision_model, text_model, visual_projection, text_projection and the parameter
/// logit_scale; besides class_head, a linear layer over the normalised image embedding, where there
/// is one.
class ClipNetwork : public PrecisionModule {
 public:
  explicit ClipNetwork(const ClipOptions& clip, const at::TensorOptions& options = {});

  /// Of pixels (n, 3, size, size): what a common embedding of them is, (n, projection_dim), of
  /// length 1.
  at::Tensor embed_images(const at::Tensor& pixels) const;
  /// The same of token ids (m, tokens), int64.
  at::Tensor embed_texts(const at::Tensor& ids) const;
  /// (n, class_count) of image embeddings; there must be a class head.
  at::Tensor classify(const at::Tensor& image_embeddings) const;

  const ClipOptions& options() const { return options_; }
  const VisionTower& image_tower() const { return *images_; }
  const TextTower& text_tower() const { return *texts_; }
  /// Projections of what represents an image (n, hidden_size) or a text, (n, projection_dim), of
  /// any length.
  at::Tensor project_images(const at::Tensor& pooled) const {
    return image_projection_->forward(pooled);
  }
  at::Tensor project_texts(const at::Tensor& pooled) const {
    return text_projection_->forward(pooled);
  }
  at::Tensor& logit_scale() { return logit_scale_; }
  const at::Tensor& logit_scale() const { return logit_scale_; }

  std::vector<std::string> notes;  ///< where its weights are from

 private:
  const ClipOptions options_;
  at::Tensor logit_scale_;  // a scalar
  std::shared_ptr<VisionTower> images_;
  std::shared_ptr<TextTower> texts_;
  std::shared_ptr<Linear> image_projection_, text_projection_,
      class_head_;  // the last is null where there is none
};

/// The options of model.clip's section adapters.
struct ClipAdapterConfig {
  std::string pointer;  ///< where they stand, "/model/adapters"
  LoraOptions options;
  std::optional<std::string>
      adapter;  ///< a folder of peft's form to begin from; nullopt: a new adapter
};

/// A CLIP whose weights are given and frozen, but for low-rank adapters in its towers and the class
/// head.
class AdaptedClip : public ClipNetwork, public FrozenBase {
 public:
  /// Its weights are unset but for those of the adapters, which follow from `seed`; none where they
  /// are on the Meta device. Exactly those that are trained need a gradient. Throws
  /// runner::StageError, which blames an option of `config`, where its targets are no layers of the
  /// towers.
  AdaptedClip(const ClipOptions& clip, const ClipAdapterConfig& config, std::uint64_t seed,
              const at::TensorOptions& options = {});

  /// Says in the notes what of `config` has no effect, and begins from the adapter that it names.
  /// Throws runner::StageError where that does not fit.
  void begin(const ClipAdapterConfig& config);
  void freeze(std::string base) { FrozenBase::freeze(*this, std::move(base)); }

  const AttachedLora& lora() const { return lora_; }

  std::optional<std::string> weights_reference;  ///< of its base; nullopt: random

 private:
  AttachedLora lora_;
};

/// The weights of a CLIP of both towers by the names of transformers' CLIPModel, as
/// model.safetensors has them, which has none for the class head. The network has no adapters.
NamedTensors exported(const ClipNetwork& network);

/// The config.json with which transformers makes that CLIPModel again.
nlohmann::ordered_json exported_config(const ClipOptions& options);

}  // namespace stages
