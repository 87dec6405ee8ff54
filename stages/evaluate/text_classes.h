#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/model.h"

namespace stages {

/// The model of a checkpoint as one that reads texts. Throws runner::StageError where it is none.
const ImageTextModel& text_model_of(const Checkpoint& checkpoint);

/// The similarities (n, m) of embeddings of images and texts, (n, width) and (m, width), as logits:
/// in float32 at least, in whatever precision the embeddings were computed, so that which one is
/// the nearest is not a matter of rounding.
at::Tensor text_logits(const at::Tensor& images, const at::Tensor& texts,
                       const at::Tensor& logit_scale);

/// Texts as a network reads them, cut to the longest of them.
class TextRows {
 public:
  TextRows(const Checkpoint& checkpoint, const std::vector<std::string>& texts);

  /// Their embeddings (n, width), on `device`, `at_once` of them at a time. The network is on that
  /// device, in eval mode.
  at::Tensor embeddings(torch::nn::Module& network, at::Device device, std::int64_t at_once) const;
  std::int64_t size() const { return tokens_.size(0); }

 private:
  const Model& model_;
  at::Tensor tokens_;
};

/// The logits of images for some texts. The texts are embedded once, when the first images are
/// seen.
class TextLabels {
 public:
  TextLabels(const Checkpoint& checkpoint, const std::vector<std::string>& texts)
      : model_(*checkpoint.model), texts_(checkpoint, texts) {}
  /// (n, texts) of `pixels` (n, 3, size, size); the network is always the same one.
  at::Tensor logits(torch::nn::Module& network, const at::Tensor& pixels);

 private:
  const Model& model_;
  const TextRows texts_;
  at::Tensor embeddings_;
};

/// Classes that are told by texts: each is represented by the mean of the embeddings of its
/// templates, of length 1, as CLIP's authors do it (Radford et al. 2021, arXiv:2103.00020,
/// section 3.1.4).
class TextClasses {
 public:
  /// What texts call the classes, in order (words_of()); each template has {name} in it.
  TextClasses(const Checkpoint& checkpoint, const std::vector<std::string>& names,
              const std::vector<std::string>& templates);

  /// (classes, width), on `device`.
  at::Tensor embeddings(torch::nn::Module& network, at::Device device, std::int64_t at_once) const;

 private:
  std::int64_t templates_;
  TextRows texts_;  // class by class
};

}  // namespace stages
