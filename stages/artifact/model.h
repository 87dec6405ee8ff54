#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/numerics/numerics.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// A recipe for a network, not a network: every run builds a fresh one, so no weights leak between
/// runs.
class Model : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kModel;
  runner::ArtifactType type() const final { return kType; }

  /// A fresh network for such data, float32 on the CPU, initialised from `seed` alone.
  /// Throws runner::StageError where the model does not suit the data.
  virtual std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                                   std::uint64_t seed) const = 0;
  /// The same network on the Meta device: the same modules, shapes, types and frozen parameters,
  /// and no values. Nothing is drawn, and of saved weights only the description is read. Throws as
  /// build() does, as far as that can be known.
  virtual std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const = 0;
  /// Runs a network made by build() on the rows of `inputs`. For a classifier {"logits": (n,
  /// classes)} is among them. Where has_frozen_features(), "features" among the inputs stand for
  /// what the frozen part makes of the others.
  virtual NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const = 0;
  /// True if one row's output depends on other rows (train-mode BatchNorm).
  virtual bool mixes_samples() const = 0;
  /// Puts back a weight that an optimizer step has moved out of the range that it must be in. It
  /// allocates nothing.
  virtual void constrain(torch::nn::Module& /*network*/) const {}
  /// Lines for the person who watches, about a network made by build(): where its weights are from.
  virtual std::vector<std::string> notes(const torch::nn::Module& /*network*/) const { return {}; }

  /// True if a part of the network is never trained, draws nothing at random, sees each row alone
  /// and stands in front of all that is. build() gives it the same values whatever its seed.
  virtual bool has_frozen_features() const { return false; }
  /// A network of that part at least, for samples that are as `data` says, float32 on the CPU; and
  /// its outline.
  virtual std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& data) const {
    return build(data, /*seed=*/0);
  }
  virtual std::shared_ptr<torch::nn::Module> outline_frozen(const DatasetDescription& data) const {
    return outline(data);
  }
  /// What such a network makes of the rows of `inputs`: {"features": (n, …)}. Only where
  /// has_frozen_features().
  virtual NamedTensors frozen_features(torch::nn::Module& /*network*/,
                                       const NamedTensors& /*inputs*/) const {
    return {};
  }
};

/// Texts as a network reads them.
struct TokenizedTexts {
  at::Tensor ids;  ///< (n, longest text that the network takes) int64 on the CPU, padded
  std::vector<std::int64_t> lengths;  ///< of each text, in tokens, with its begin and end
  std::vector<std::size_t> cut;       ///< the texts that were longer
};

/// A model that reads texts beside images. Its forward() gives of {"image"} the "image_embeddings"
/// (n, width), of
/// {"tokens": (m, tokens)} the "text_embeddings" (m, width), with either the logarithm of the
/// factor of their products, the scalar "logit_scale", and of a class head on images the "logits".
/// The embeddings are of length 1.
class ImageTextModel {
 public:
  virtual ~ImageTextModel() = default;
  /// Throws runner::StageError, naming up to ten of them, for texts that are empty, or longer than
  /// the network takes where the recipe does not say to cut them.
  virtual TokenizedTexts tokenized(const std::vector<std::string>& texts) const = 0;
  virtual bool has_class_head() const = 0;
};

/// A model of the same modules, by the same names and with the same dropout, in which each holds as
/// few numbers as may be; and data for it. Nothing is read for it: its weights are random.
struct Shrunken {
  std::shared_ptr<const Model> model;
  DatasetDescription data;
};

/// A model that can be made small, to compare ways of computing its gradient. Others are compared
/// as they are.
class ShrinkableModel {
 public:
  virtual ~ShrinkableModel() = default;
  /// For such data. The forward() of this model runs the small one's networks too.
  virtual Shrunken shrunken(const DatasetDescription& data) const = 0;
};

/// Trained weights, and how to run them.
class Checkpoint : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kCheckpoint;
  runner::ArtifactType type() const final { return kType; }
  runner::HeldMemory held() const final;

  /// In eval mode, on the run's device; its values never change again. Null where its training has
  /// let it go.
  std::shared_ptr<torch::nn::Module> network;
  /// Where it was let go, another such network, made and read from `file`. Throws
  /// runner::StageError.
  std::function<std::shared_ptr<torch::nn::Module>()> load = {};
  /// `network`, or a loaded one that is the caller's.
  std::shared_ptr<torch::nn::Module> opened() const { return network ? network : load(); }
  std::shared_ptr<const Model> model;
  std::string model_stage;   ///< the stage that the model comes from, as memory.precision names it
  NumericsOptions numerics;  ///< of its training; a prediction computes so too
  std::vector<std::string> classes;
  std::vector<std::string> class_words;  ///< what texts call them
  std::int64_t pair_of =
      0;  ///< as of DatasetDescription: above 0, one logit tells two classes apart
  std::vector<TensorSpec> inputs;    ///< of the samples it was trained on
  std::string transform;             ///< of its training data
  std::int64_t epoch = 0, step = 0;  ///< when the weights were taken
  std::filesystem::path file;        ///< the safetensors file
  std::map<std::string, double>
      validation;       ///< how good it was on the validation data, by name; empty: not measured
  std::string weights;  ///< "averaged" or "trained", where an earlier training kept an average of
                        ///< its weights
};

/// A model whose architecture has a name by which people tell it from others: "densenet121". It is
/// one Model beside that.
class NamedModel {
 public:
  virtual ~NamedModel() = default;
  virtual std::string architecture() const = 0;
};

}  // namespace stages
