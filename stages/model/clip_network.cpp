#include "stages/model/clip_network.h"

#include <stdexcept>

#include <torch/types.h>

namespace stages {
namespace {

at::Tensor normalized(const at::Tensor& x) { return x / x.norm(2, /*dim=*/-1, /*keepdim=*/true); }

}  // namespace

ClipNetwork::ClipNetwork(const ClipOptions& clip, const at::TensorOptions& options)
    : options_(clip),
      logit_scale_(register_parameter("logit_scale", torch::empty({}, options))),
      images_(register_module("vision_model", std::make_shared<VisionTower>(clip.image, options))),
      texts_(register_module("text_model", std::make_shared<TextTower>(clip.text, options))) {
  const auto linear = [&](const char* name, std::int64_t inputs, std::int64_t outputs, bool with_bias) {
    return register_module(name, std::make_shared<Linear>(inputs, outputs, with_bias, options));
  };
  image_projection_ = linear("visual_projection", clip.image.block.hidden_size, clip.projection_dim, false);
  text_projection_ = linear("text_projection", clip.text.block.hidden_size, clip.projection_dim, false);
  if (clip.class_count > 0) class_head_ = linear("class_head", clip.projection_dim, clip.class_count, true);
}

at::Tensor ClipNetwork::embed_images(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  return normalized(project_images(images_->pool(images_->forward_class_token(own(pixels)))));
}

at::Tensor ClipNetwork::embed_texts(const at::Tensor& ids) const {
  const OwnPrecision own(*this);
  return normalized(project_texts(texts_->forward(ids)));
}

at::Tensor ClipNetwork::classify(const at::Tensor& image_embeddings) const {
  const OwnPrecision own(*this);
  if (!class_head_) throw std::logic_error("this CLIP has no class head");
  return class_head_->forward(own(image_embeddings));
}

}  // namespace stages
