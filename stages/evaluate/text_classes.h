#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/model.h"

namespace stages {

/// Returns a checkpoint's model as an ImageTextModel. Throws runner::StageError if it is not one.
const ImageTextModel& text_model_of(const Checkpoint& checkpoint);

/// Returns the similarities (n, m) of image embeddings (n, width) and text embeddings (m, width) as
/// logits. Computes them in float32 or wider, regardless of the precision of the embeddings, so
/// that rounding does not decide which text is nearest.
at::Tensor text_logits(const at::Tensor& images, const at::Tensor& texts,
                       const at::Tensor& logit_scale);

/// Tokenized texts for a network, padded to the longest of them.
class TextRows {
 public:
  TextRows(const Checkpoint& checkpoint, const std::vector<std::string>& texts);

  /// Returns the embeddings (n, width) of the texts on `device`, computed `at_once` texts at a
  /// time. The network must be on that device, in eval mode.
  at::Tensor embeddings(torch::nn::Module& network, at::Device device, std::int64_t at_once) const;
  std::int64_t size() const { return tokens_.size(0); }

 private:
  const Model& model_;
  at::Tensor tokens_;
};

/// Computes the logits of images for a list of texts. The texts are embedded once, on the first
/// call.
class TextLabels {
 public:
  TextLabels(const Checkpoint& checkpoint, const std::vector<std::string>& texts)
      : model_(*checkpoint.model), texts_(checkpoint, texts) {}
  /// Returns the logits (n, texts) for `pixels` (n, 3, size, size). Every call must pass the same
  /// network.
  at::Tensor logits(torch::nn::Module& network, const at::Tensor& pixels);

 private:
  const Model& model_;
  const TextRows texts_;
  at::Tensor embeddings_;
};

/// Classes described by texts. A class is represented by the class_embeddings() of its filled
/// templates.
class TextClasses {
 public:
  /// `names` are the class names as used in texts, in order (words_of()); each template contains
  /// {name}.
  TextClasses(const Checkpoint& checkpoint, const std::vector<std::string>& names,
              const std::vector<std::string>& templates);

  /// Returns the embeddings (classes, width) on `device`.
  at::Tensor embeddings(torch::nn::Module& network, at::Device device, std::int64_t at_once) const;

 private:
  std::int64_t templates_;
  TextRows texts_;  // grouped by class
};

}  // namespace stages
