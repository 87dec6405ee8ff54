#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/model/text_tower.h"
#include "stages/model/vision_tower.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The shape of a CLIP.
struct ClipOptions {
  VisionTowerOptions image;
  TextTowerOptions text;
  std::int64_t projection_dim = 0;  ///< width of the common space
  std::int64_t class_count = 0;     ///< outputs of the class head; 0: it has none
};

/// CLIP (Radford et al. 2021, arXiv:2103.00020): two towers whose outputs are projected into one space, and the
/// logarithm of the factor by which the similarities there are multiplied. Children by HF's names: vision_model,
/// text_model, visual_projection, text_projection and the parameter logit_scale; besides class_head, a linear layer
/// over the normalised image embedding, where there is one.
class ClipNetwork : public PrecisionModule {
 public:
  explicit ClipNetwork(const ClipOptions& clip, const at::TensorOptions& options = {});

  /// Of pixels (n, 3, size, size): what a common embedding of them is, (n, projection_dim), of length 1.
  at::Tensor embed_images(const at::Tensor& pixels) const;
  /// The same of token ids (m, tokens), int64.
  at::Tensor embed_texts(const at::Tensor& ids) const;
  /// (n, class_count) of image embeddings; there must be a class head.
  at::Tensor classify(const at::Tensor& image_embeddings) const;

  const ClipOptions& options() const { return options_; }
  const VisionTower& image_tower() const { return *images_; }
  const TextTower& text_tower() const { return *texts_; }
  /// Projections of what represents an image (n, hidden_size) or a text, (n, projection_dim), of any length.
  at::Tensor project_images(const at::Tensor& pooled) const { return image_projection_->forward(pooled); }
  at::Tensor project_texts(const at::Tensor& pooled) const { return text_projection_->forward(pooled); }
  at::Tensor& logit_scale() { return logit_scale_; }
  const at::Tensor& logit_scale() const { return logit_scale_; }

  std::vector<std::string> notes;  ///< where its weights are from

 private:
  const ClipOptions options_;
  at::Tensor logit_scale_;  // a scalar
  std::shared_ptr<VisionTower> images_;
  std::shared_ptr<TextTower> texts_;
  std::shared_ptr<Linear> image_projection_, text_projection_, class_head_;  // the last is null where there is none
};

}  // namespace stages
