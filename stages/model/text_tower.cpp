#include "stages/model/text_tower.h"

#include <cassert>

#include <torch/types.h>

namespace stages {
namespace {

BlockOptions causal(BlockOptions block) {
  block.is_causal = true;
  return block;
}

/// Of each row the place of its first true, 0 where there is none.
at::Tensor first_true(const at::Tensor& mask) {
  const at::Tensor before = mask.to(at::kLong).cumsum(1).eq(0).sum(1);  // how many tokens come before it
  return before.remainder(mask.size(1));
}

}  // namespace

at::Tensor end_places(const at::Tensor& ids, EndToken rule, std::int64_t end_id) {
  return first_true(rule == EndToken::kFirstEnd ? ids.eq(end_id) : ids.eq(ids.amax(1, /*keepdim=*/true)));
}

TextEmbeddings::TextEmbeddings(const TextTowerOptions& tower, const at::TensorOptions& options)
    : tokens_(register_module("token_embedding",
                              std::make_shared<PositionEmbedding>(tower.vocab_size, tower.block.hidden_size, options))),
      positions_(register_module("position_embedding", std::make_shared<PositionEmbedding>(
                                                           tower.context_length, tower.block.hidden_size, options))) {}

at::Tensor TextEmbeddings::forward(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  assert(ids.size(1) <= positions_->weight.size(0));
  return own(torch::embedding(tokens_->weight, ids) + positions_->weight.narrow(0, 0, ids.size(1)));
}

TextTower::TextTower(const TextTowerOptions& tower, const at::TensorOptions& options)
    : end_token_(tower.end_token),
      end_id_(tower.end_id),
      embeddings_(register_module("embeddings", std::make_shared<TextEmbeddings>(tower, options))),
      blocks_(register_blocks(*this, causal(tower.block), tower.num_hidden_layers, /*drop_path=*/0, options)),
      final_norm_(
          register_module("final_layer_norm",
                          std::make_shared<LayerNorm>(tower.block.hidden_size, tower.block.layer_norm_eps, options))) {}

at::Tensor TextTower::last_hidden_state(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  at::Tensor x = embed(ids);
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

/// The norm sees each token alone, so only those that are wanted go through it.
at::Tensor TextTower::forward(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  const at::Tensor x = last_hidden_state(ids);
  const at::Tensor rows =
      torch::arange(ids.size(0), ids.options()) * ids.size(1) + end_places(ids, end_token_, end_id_);
  return normalize(x.flatten(0, 1).index_select(0, rows));
}

}  // namespace stages
