#include "stages/model/image_classifier.h"

#include <cassert>

#include <torch/torch.h>

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
    : feature_(classifier.feature),
      tower_(register_module("vision_model", std::make_shared<VisionTower>(classifier.tower, options))) {
  assert(classifier.projection_dim || !is_projected(feature_));
  if (classifier.projection_dim) {
    projection_ = register_module(
        "visual_projection", std::make_shared<Linear>(classifier.tower.block.hidden_size, *classifier.projection_dim,
                                                      /*with_bias=*/false, options));
  }
  head_ = register_module("head", std::make_shared<Linear>(classifier.feature_width(), classifier.num_classes,
                                                           /*with_bias=*/true, options));
  dropout_ = register_module("dropout", std::make_shared<Dropout>(classifier.dropout));
}

at::Tensor ImageClassifier::feature(const at::Tensor& last_hidden_state) const {
  switch (feature_) {
    case Feature::kPooled:
      return tower_->pool(last_hidden_state);
    case Feature::kProjected:
      return projection_->forward(tower_->pool(last_hidden_state));
    case Feature::kProjectedBeforeNorm:
      return projection_->forward(last_hidden_state.select(1, 0));
  }
  assert(false);
  return {};
}

NamedTensors ImageClassifier::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor features = feature(tower_->forward(own(pixels)));
  return {{"logits", head_->forward(dropout_->forward(features))}, {"features", features}};
}

}  // namespace stages
