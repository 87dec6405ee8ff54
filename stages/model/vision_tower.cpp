#include "stages/model/vision_tower.h"

#include <cassert>

#include <torch/types.h>

namespace stages {

VisionEmbeddings::VisionEmbeddings(const VisionTowerOptions& tower, const at::TensorOptions& options)
    : class_embedding_(register_parameter("class_embedding", torch::empty({tower.block.hidden_size}, options))),
      patches_(register_module(
          "patch_embedding",
          std::make_shared<PatchEmbedding>(tower.patch_size, tower.block.hidden_size, tower.patch_bias, options))),
      positions_(register_module("position_embedding", std::make_shared<PositionEmbedding>(
                                                           tower.tokens(), tower.block.hidden_size, options))) {}

at::Tensor VisionEmbeddings::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor patches = patches_->forward(own(pixels));
  const at::Tensor class_token = class_embedding_.expand({patches.size(0), 1, -1});
  return torch::cat({class_token, patches}, 1) + positions_->weight;
}

VisionTower::VisionTower(const VisionTowerOptions& tower, const at::TensorOptions& options) {
  assert(tower.patch_size > 0 && tower.image_size % tower.patch_size == 0);
  const std::int64_t width = tower.block.hidden_size;
  const double epsilon = tower.block.layer_norm_eps;

  embeddings_ = register_module("embeddings", std::make_shared<VisionEmbeddings>(tower, options));
  if (tower.norm_before_blocks) {
    norm_before_blocks_ = register_module("pre_layrnorm", std::make_shared<LayerNorm>(width, epsilon, options));
  }
  blocks_ = register_blocks(*this, tower.block, tower.num_hidden_layers, tower.drop_path, options);
  norm_of_pooled_ = register_module("post_layernorm", std::make_shared<LayerNorm>(width, epsilon, options));
}

at::Tensor VisionTower::embed(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor x = embeddings_->forward(own(pixels));
  return norm_before_blocks_ ? norm_before_blocks_->forward(x) : x;
}

at::Tensor VisionTower::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  at::Tensor x = embed(own(pixels));
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

at::Tensor VisionTower::forward_class_token(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  at::Tensor x = embed(own(pixels));
  if (blocks_.empty()) return x.narrow(1, 0, 1);
  for (std::size_t i = 0; i + 1 < blocks_.size(); ++i) x = blocks_[i]->forward(x);
  return blocks_.back()->forward_first(x);
}

at::Tensor VisionTower::pool(const at::Tensor& last_hidden_state) const {
  return norm_of_pooled_->forward(last_hidden_state.select(1, 0));
}

}  // namespace stages
