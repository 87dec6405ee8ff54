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

inline constexpr const char* kMixingLayers =
    "the network's layers mix the samples of a batch (BatchNorm)";

/// A recipe for a network, not a network: every run builds a new one, so no weights leak between
/// runs.
class Model : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kModel;
  runner::ArtifactType type() const final { return kType; }

  /// A new network for such data, float32 on the CPU, initialised from `seed` alone. Throws
  /// runner::StageError if the model does not suit the data.
  virtual std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                                   std::uint64_t seed) const = 0;
  /// The same network on the Meta device: the same modules, shapes, types and frozen parameters,
  /// without values. Draws no random numbers; reads only the description of saved weights. Throws
  /// as build() does, where the error can be known without the values.
  virtual std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const = 0;
  /// Runs a network made by build() on the rows of `inputs`. A classifier's outputs include
  /// {"logits": (n, classes)}. If has_frozen_features(), "features" in the inputs replaces what the
  /// frozen part computes from the other inputs.
  virtual NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const = 0;
  /// True if one row's output depends on other rows (train-mode BatchNorm).
  virtual bool mixes_samples() const = 0;
  /// Why, if it does, as a sentence of a message.
  virtual std::string why_mixed() const { return kMixingLayers; }
  /// True if, within a ScopedRankStatistics, every layer that does so sees the rows of all ranks
  /// that share a batch.
  virtual bool mixes_over_ranks() const { return false; }
  /// Moves a weight back into its valid range after an optimizer step. Allocates nothing.
  virtual void constrain(torch::nn::Module& /*network*/) const {}
  /// Lines for the user about a network made by build(): where its weights come from.
  virtual std::vector<std::string> notes(const torch::nn::Module& /*network*/) const { return {}; }

  /// True if the network starts with a part that is never trained, draws nothing at random and
  /// treats each row alone, with all trainable parts after it. build() gives that part the same
  /// values for any seed.
  virtual bool has_frozen_features() const { return false; }
  /// A network with at least that part, for samples described by `data`, float32 on the CPU; and
  /// its outline.
  virtual std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& data) const {
    return build(data, /*seed=*/0);
  }
  virtual std::shared_ptr<torch::nn::Module> outline_frozen(const DatasetDescription& data) const {
    return outline(data);
  }
  /// What such a network computes from the rows of `inputs`: {"features": (n, …)}. Only valid if
  /// has_frozen_features().
  virtual NamedTensors frozen_features(torch::nn::Module& /*network*/,
                                       const NamedTensors& /*inputs*/) const {
    return {};
  }
};

/// Texts as token ids for a network.
struct TokenizedTexts {
  at::Tensor ids;  ///< (n, longest text that the network takes) int64 on the CPU, padded
  std::vector<std::int64_t> lengths;  ///< length of each text in tokens, including start and end
  std::vector<std::size_t> cut;       ///< indices of the texts that were longer
};

/// A model that reads texts as well as images. forward() returns "image_embeddings" (n, width) for
/// {"image"} and "text_embeddings" (m, width) for {"tokens": (m, tokens)}; with either also the
/// scalar "logit_scale", the logarithm of the factor on their products; and, if there is a class
/// head on images, the "logits". Embeddings have length 1.
class ImageTextModel {
 public:
  virtual ~ImageTextModel() = default;
  /// Throws runner::StageError, naming at most ten of them, for texts that are empty, or too long
  /// for the network if the recipe does not say to truncate them.
  virtual TokenizedTexts tokenized(const std::vector<std::string>& texts) const = 0;
  virtual bool has_class_head() const = 0;
};

/// A model with the same modules, names and dropout, each as small as possible, and data for it.
/// Nothing is read for it: its weights are random.
struct Shrunken {
  std::shared_ptr<const Model> model;
  DatasetDescription data;
};

/// A model that can be shrunk to compare ways of computing its gradient. Other models are compared
/// at full size.
class ShrinkableModel {
 public:
  virtual ~ShrinkableModel() = default;
  /// For such data. This model's forward() also runs the networks of the small one.
  virtual Shrunken shrunken(const DatasetDescription& data) const = 0;
};

/// Trained weights, and how to run them.
class Checkpoint : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kCheckpoint;
  runner::ArtifactType type() const final { return kType; }
  runner::HeldMemory held() const final;

  /// In eval mode, on the run's device; its values never change again. Null if its training has
  /// released it.
  std::shared_ptr<torch::nn::Module> network;
  /// If released: builds another such network and reads it from `file`. Throws runner::StageError.
  std::function<std::shared_ptr<torch::nn::Module>()> load = {};
  /// `network`, or a newly loaded one that the caller owns.
  std::shared_ptr<torch::nn::Module> opened() const { return network ? network : load(); }
  std::shared_ptr<const Model> model;
  std::string model_stage;   ///< the stage of the model, as memory.precision names it
  NumericsOptions numerics;  ///< of its training; predictions use the same
  std::vector<std::string> classes;
  std::vector<std::string> class_words;  ///< the class names as used in texts
  std::int64_t pair_of = 0;  ///< as in DatasetDescription: above 0, one logit separates two classes
  std::vector<TensorSpec> inputs;            ///< of the samples it was trained on
  std::string transform;                     ///< of its training data
  std::int64_t epoch = 0, step = 0;          ///< when the weights were taken
  std::filesystem::path file;                ///< the safetensors file
  std::map<std::string, double> validation;  ///< validation metrics by name; empty: not measured
  std::string weights;  ///< "averaged" or "trained", if an earlier training kept an average of its
                        ///< weights
};

/// A model whose architecture has a well-known name: "densenet121". It is also a Model.
class NamedModel {
 public:
  virtual ~NamedModel() = default;
  virtual std::string architecture() const = 0;
};

}  // namespace stages
