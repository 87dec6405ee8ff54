#include "stages/model/vision_tower.h"

#include <cassert>

#include <torch/types.h>

#include "stages/model/coral_layer.h"

namespace stages {

VisionEmbeddings::VisionEmbeddings(const VisionTowerOptions& tower,
                                   const at::TensorOptions& options)
    : class_embedding_(
          register_parameter("class_embedding", torch::empty({tower.block.hidden_size}, options))),
      patches_(register_module("patch_embedding", std::make_shared<PatchEmbedding>(
                                                      tower.patch_size, tower.block.hidden_size,
                                                      tower.patch_bias, options))),
      positions_(register_module("position_embedding",
                                 std::make_shared<PositionEmbedding>(
                                     tower.positions(), tower.block.hidden_size, options))) {
  if (tower.register_tokens > 0) {
    register_tokens_ = register_parameter(
        "register_tokens", torch::empty({tower.register_tokens, tower.block.hidden_size}, options));
  }
}

at::Tensor VisionEmbeddings::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor patches = patches_->forward(own(pixels));
  const at::Tensor class_token = class_embedding_.expand({patches.size(0), 1, -1});
  const at::Tensor x = torch::cat({class_token, patches}, 1) + positions_->weight;
  if (!register_tokens_.defined()) return x;
  return torch::cat({x.narrow(1, 0, 1), register_tokens_.expand({x.size(0), -1, -1}),
                     x.narrow(1, 1, x.size(1) - 1)},
                    1);
}

VisionTower::VisionTower(const VisionTowerOptions& tower, const at::TensorOptions& options) {
  assert(tower.patch_size > 0 && tower.image_size % tower.patch_size == 0);
  const std::int64_t width = tower.block.hidden_size;
  const double epsilon = tower.block.layer_norm_eps;

  embeddings_ = register_module("embeddings", std::make_shared<VisionEmbeddings>(tower, options));
  if (tower.norm_before_blocks) {
    norm_before_blocks_ =
        register_module("pre_layrnorm", std::make_shared<LayerNorm>(width, epsilon, options));
  }
  blocks_ = register_blocks(*this, tower.block, tower.num_hidden_layers, tower.drop_path, options);
  norm_of_pooled_ =
      register_module("post_layernorm", std::make_shared<LayerNorm>(width, epsilon, options));
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

namespace {

constexpr std::int64_t kWidth = 8, kInnerWidth = 16, kHeads = 2, kSmallProjection = 6, kPatch = 4,
                       kImage = 8;

}  // namespace

void shrink(VisionTowerOptions& tower, std::optional<std::int64_t>& image_size,
            std::optional<std::int64_t>& projection_dim) {
  tower.block.hidden_size = kWidth;
  tower.block.intermediate_size = kInnerWidth;
  tower.block.num_attention_heads = kHeads;
  tower.patch_size = kPatch;
  image_size.reset();
  if (projection_dim) projection_dim = kSmallProjection;
}

DatasetDescription shrunken_data(DatasetDescription data, std::int64_t width) {
  for (TensorSpec& tensor : data.tensors) {
    if (tensor.name == "image" && tensor.shape.size() == 3)
      tensor.shape = {tensor.shape[0], kImage, kImage};
    if (tensor.name == "features") tensor.shape = {width};
  }
  if (data.source)
    data.source = std::make_shared<const DatasetDescription>(shrunken_data(*data.source, width));
  return data;
}

bool is_projected(Feature feature) {
  switch (feature) {
    case Feature::kPooled:
      return false;
    case Feature::kProjected:
      return true;
    case Feature::kProjectedBeforeNorm:
      return true;
    case Feature::kProjectedNormalized:
      return true;
  }
  assert(false);
  return false;
}

ImageClassifier::ImageClassifier(const ImageClassifierOptions& classifier,
                                 const at::TensorOptions& options)
    : options_(classifier),
      tower_(register_module("vision_model",
                             std::make_shared<VisionTower>(classifier.tower, options))) {
  assert(classifier.projection_dim || !is_projected(options_.feature));
  if (classifier.projection_dim) {
    projection_ = register_module(
        "visual_projection",
        std::make_shared<Linear>(classifier.tower.block.hidden_size, *classifier.projection_dim,
                                 classifier.projection_bias, options));
  }
  head_ =
      register_module("head", classifier_layer(classifier.feature_width(), classifier.num_classes,
                                               classifier.ordinal, options));
  dropout_ = register_module("dropout", std::make_shared<Dropout>(classifier.dropout));
}

at::Tensor ImageClassifier::feature(const at::Tensor& last_hidden_state) const {
  switch (options_.feature) {
    case Feature::kPooled:
      return tower_->pool(last_hidden_state);
    case Feature::kProjected:
      return projected(tower_->pool(last_hidden_state));
    case Feature::kProjectedBeforeNorm:
      return projected(last_hidden_state.select(1, 0));
    case Feature::kProjectedNormalized:
      return with_unit_length(projected(tower_->pool(last_hidden_state)));
  }
  assert(false);
  return {};
}

at::Tensor ImageClassifier::projected(const at::Tensor& tokens) const {
  return projection_->forward(tokens);
}

at::Tensor ImageClassifier::features(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  return feature(tower_->forward_class_token(own(pixels)));
}

at::Tensor ImageClassifier::classify(const at::Tensor& features) const {
  const OwnPrecision own(*this);
  return head_->forward(dropout_->forward(own(features)));
}

NamedTensors ImageClassifier::forward(const at::Tensor& pixels) const {
  const at::Tensor seen = features(pixels);
  return {{"logits", classify(seen)}, {"features", seen}};
}

}  // namespace stages
