#include "stages/model/image_classifier.h"

#include <cassert>

#include <torch/types.h>

namespace stages {

bool is_projected(Feature feature) {
  switch (feature) {
    case Feature::kPooled:
      return false;
    case Feature::kProjected:
      return true;
    case Feature::kProjectedBeforeNorm:
      return true;
  }
  assert(false);
  return false;
}

ImageClassifier::ImageClassifier(const ImageClassifierOptions& classifier, const at::TensorOptions& options)
    : options_(classifier),
      tower_(register_module("vision_model", std::make_shared<VisionTower>(classifier.tower, options))) {
  assert(classifier.projection_dim || !is_projected(options_.feature));
  if (classifier.projection_dim) {
    projection_ = register_module(
        "visual_projection", std::make_shared<Linear>(classifier.tower.block.hidden_size, *classifier.projection_dim,
                                                      classifier.projection_bias, options));
  }
  head_ = register_module("head", std::make_shared<Linear>(classifier.feature_width(), classifier.num_classes,
                                                           /*with_bias=*/true, options));
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
  }
  assert(false);
  return {};
}

at::Tensor ImageClassifier::projected(const at::Tensor& tokens) const { return projection_->forward(tokens); }

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
