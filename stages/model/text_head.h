#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/model/backbone.h"
#include "stages/model/clip_network.h"
#include "stages/text/tokenizer.h"
#include "stages/weights/saved_weights.h"

namespace stages {

/// CLIP's text tower with its projection and its logit scale, without the image tower. Its children
/// and parameters have the same names as in ClipNetwork. The weights are uninitialized until
/// loaded.
class TextEncoder : public PrecisionModule {
 public:
  TextEncoder(const TextTowerOptions& tower, std::int64_t projection_dim,
              const at::TensorOptions& options = {});
  /// Embeds token IDs (m, tokens), int64: (m, projection_dim), of length 1.
  at::Tensor forward(const at::Tensor& ids) const;
  /// The logarithm of the factor by which similarities are multiplied, a scalar.
  const at::Tensor& logit_scale() const { return logit_scale_; }

 private:
  at::Tensor logit_scale_;
  std::shared_ptr<TextTower> texts_;
  std::shared_ptr<Linear> projection_;
};

/// A linear head that gives a normalized image embedding the same logits as CLIP's zero-shot
/// classification: the rows are the class embeddings times the logit scale, without a bias
/// (Wortsman et al. 2022, arXiv:2109.01903, section 3). Reads the text tower from the backbone's
/// weights, using the dimensions in the config.json and the tokenizer next to them.
class TextHead {
 public:
  /// `pointer` is the location of the model's options, including `templates`. `saved` contains the
  /// shapes, the config and the digest of the backbone's weights. Throws runner::StageError at the
  /// backbone's weights if they have no text tower, or if the tokenizer or the config is missing.
  TextHead(std::string pointer, const BackboneConfig& backbone, std::vector<std::string> templates,
           std::shared_ptr<const SavedWeights> saved);

  /// Returns the head's rows for class names as used in texts: (classes, projection_dim), in
  /// float32 on the CPU. The text tower is in memory only during the call. Throws
  /// runner::StageError.
  at::Tensor rows(const std::vector<std::string>& names) const;
  /// Runs the same operations on the Meta device, for plans.
  at::Tensor outline(const std::vector<std::string>& names) const;

 private:
  at::Tensor computed(const std::vector<std::string>& names, at::Device device) const;
  void fill(TextEncoder& encoder) const;

  const std::string pointer_;
  const BackboneConfig backbone_;
  const std::vector<std::string> templates_;
  const std::shared_ptr<const SavedWeights> saved_;
  TextTowerOptions tower_;
  std::int64_t projection_dim_ = 0;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace stages
