#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runner/shared/stage/artifact.h"
#include "stages/artifact/dataset.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// A recipe for a network, not a network: every run builds a fresh one, so no weights leak between runs.
class Model : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kModel;
  runner::ArtifactType type() const final { return kType; }

  /// A fresh network for such data, float32 on the CPU, initialised from `seed` alone.
  /// Throws runner::StageError where the model does not suit the data.
  virtual std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data, std::uint64_t seed) const = 0;
  /// The same network on the Meta device: the same modules, shapes, types and frozen parameters, and no values. Nothing
  /// is drawn, and of saved weights only the description is read. Throws as build() does, as far as that can be known.
  virtual std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const = 0;
  /// Runs a network made by build() on the rows of `inputs`. For a classifier {"logits": (n, classes)} is among them.
  /// Where has_frozen_features(), "features" among the inputs stand for what the frozen part makes of the others.
  virtual NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const = 0;
  /// True if one row's output depends on other rows (train-mode BatchNorm).
  virtual bool mixes_samples() const = 0;
  /// Puts back a weight that an optimizer step has moved out of the range that it must be in. It allocates nothing.
  virtual void constrain(torch::nn::Module& /*network*/) const {}
  /// Lines for the person who watches, about a network made by build(): where its weights are from.
  virtual std::vector<std::string> notes(const torch::nn::Module& /*network*/) const { return {}; }

  /// True if a part of the network is never trained, draws nothing at random, sees each row alone and stands in front
  /// of all that is. build() gives it the same values whatever its seed.
  virtual bool has_frozen_features() const { return false; }
  /// A network of that part at least, for samples that are as `data` says, float32 on the CPU; and its outline.
  virtual std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& data) const {
    return build(data, /*seed=*/0);
  }
  virtual std::shared_ptr<torch::nn::Module> outline_frozen(const DatasetDescription& data) const {
    return outline(data);
  }
  /// What such a network makes of the rows of `inputs`: {"features": (n, …)}. Only where has_frozen_features().
  virtual NamedTensors frozen_features(torch::nn::Module& /*network*/, const NamedTensors& /*inputs*/) const {
    return {};
  }
};

/// Texts as a network reads them.
struct TokenizedTexts {
  at::Tensor ids;                     ///< (n, longest text that the network takes) int64 on the CPU, padded
  std::vector<std::int64_t> lengths;  ///< of each text, in tokens, with its begin and end
  std::vector<std::size_t> cut;       ///< the texts that were longer
};

/// A model that reads texts beside images. Its forward() gives of {"image"} the "image_embeddings" (n, width), of
/// {"tokens": (m, tokens)} the "text_embeddings" (m, width), with either the logarithm of the factor of their
/// products, the scalar "logit_scale", and of a class head on images the "logits". The embeddings are of length 1.
class ImageTextModel {
 public:
  virtual ~ImageTextModel() = default;
  /// Throws runner::StageError, naming up to ten of them, for texts that are empty, or longer than the network takes
  /// where the recipe does not say to cut them.
  virtual TokenizedTexts tokenized(const std::vector<std::string>& texts) const = 0;
  virtual bool has_class_head() const = 0;
};

/// A model of the same modules, by the same names and with the same dropout, in which each holds as few numbers as may
/// be; and data for it. Nothing is read for it: its weights are random.
struct Shrunken {
  std::shared_ptr<const Model> model;
  DatasetDescription data;
};

/// A model that can be made small, to compare ways of computing its gradient. Others are compared as they are.
class ShrinkableModel {
 public:
  virtual ~ShrinkableModel() = default;
  /// For such data. The forward() of this model runs the small one's networks too.
  virtual Shrunken shrunken(const DatasetDescription& data) const = 0;
};

}  // namespace stages
