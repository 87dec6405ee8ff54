#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stages/model/transformer_block.h"

namespace stages {

/// The token whose output represents a text.
enum class EndToken {
  kHighestId,  ///< the first one with the highest id, as in OpenAI's weights, whose end of text has it
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

/// A vector for each token, and one for each position. Children: token_embedding, position_embedding.
class TextEmbeddings : public PrecisionModule {
 public:
  TextEmbeddings(const TextTowerOptions& tower, const at::TensorOptions& options);
  /// (n, tokens) int64 to (n, tokens, hidden_size); at most context_length tokens.
  at::Tensor forward(const at::Tensor& ids) const;

 private:
  std::shared_ptr<PositionEmbedding> tokens_, positions_;  // a table each
};

/// CLIP's text transformer (Radford et al. 2021, arXiv:2103.00020). The parameter names are those of HF's `text_model`:
/// embeddings.{token_embedding, position_embedding}.weight, encoder.layers.<i>.…, final_layer_norm.
///
/// Since attention is causal, what follows the end of a text changes nothing: texts may be padded with any token, and
/// cut to the longest of them. The weights are unset until somebody initialises or loads them.
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

}  // namespace stages
