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

/// Builds networks. Every run builds a new network, so no weights leak between runs.
class Model : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kModel;
  runner::ArtifactType type() const final { return kType; }

  /// Returns a new network for `data`, float32 on the CPU, initialized from `seed` alone. Throws
  /// runner::StageError if the model does not match the data.
  virtual std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                                   std::uint64_t seed) const = 0;
  /// Returns the same network on the Meta device: the same modules, shapes, types and frozen
  /// parameters, without values. Draws no random numbers, and reads only the headers of saved
  /// weights. Throws like build() if the error can be detected without the values.
  virtual std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const = 0;
  /// Runs a network from build() on the rows of `inputs`. A classifier's outputs include {"logits":
  /// (n, classes)}. If has_frozen_features(), an input "features" replaces the outputs of the
  /// frozen part.
  virtual NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const = 0;
  /// True if one row's output depends on other rows (train-mode BatchNorm).
  virtual bool mixes_samples() const = 0;
  /// Returns why mixes_samples() is true, as a clause for messages.
  virtual std::string why_mixed() const { return kMixingLayers; }
  /// True if, while a ScopedRankStatistics exists, every layer that mixes samples uses the rows of
  /// all ranks that share a batch.
  virtual bool mixes_over_ranks() const { return false; }
  /// Moves weights back into their valid range after an optimizer step. Allocates nothing.
  virtual void constrain(torch::nn::Module& /*network*/) const {}
  /// True if build() can create a network with this head for data that requests it.
  virtual bool has_ordinal_head(OrdinalHead /*head*/) const { return false; }
  /// Returns lines for the user about a network from build(), such as the source of its weights.
  virtual std::vector<std::string> notes(const torch::nn::Module& /*network*/) const { return {}; }

  /// True if the network begins with a frozen part: it is never trained, has no randomness, treats
  /// each row separately, and precedes all trainable parts. build() gives it the same values for
  /// every seed.
  virtual bool has_frozen_features() const { return false; }
  /// Return a network with at least the frozen part, for samples described by `data`: float32 on
  /// the CPU, or its outline on the Meta device.
  virtual std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& data) const {
    return build(data, /*seed=*/0);
  }
  virtual std::shared_ptr<torch::nn::Module> outline_frozen(const DatasetDescription& data) const {
    return outline(data);
  }
  /// Returns the outputs of the frozen part for the rows of `inputs`: {"features": (n, …)}. Only
  /// valid if has_frozen_features().
  virtual NamedTensors frozen_features(torch::nn::Module& /*network*/,
                                       const NamedTensors& /*inputs*/) const {
    return {};
  }

  /// True if build() and outline() obey a ScopedShardedBuild. Otherwise, every rank first builds
  /// the whole network.
  virtual bool builds_in_shards() const { return false; }
};

/// Texts as token IDs for a network.
struct TokenizedTexts {
  at::Tensor ids;                     ///< (n, the network's longest text) int64 on the CPU, padded
  std::vector<std::int64_t> lengths;  ///< length of each text in tokens, including start and end
  std::vector<std::size_t> cut;       ///< indices of texts that were truncated
};

/// A model that reads texts as well as images. forward() returns "image_embeddings" (n, width) for
/// {"image"} and "text_embeddings" (m, width) for {"tokens": (m, tokens)}. In both cases it also
/// returns the scalar "logit_scale": the logarithm of the factor by which image-text products are
/// multiplied. A class head on images adds "logits". Embeddings have length 1.
class ImageTextModel {
 public:
  virtual ~ImageTextModel() = default;
  /// Returns the token IDs of `texts`. Throws runner::StageError for empty texts, and for texts
  /// that are too long for the network unless the recipe truncates them; the message names at most
  /// ten.
  virtual TokenizedTexts tokenized(const std::vector<std::string>& texts) const = 0;
  virtual bool has_class_head() const = 0;
};

/// A model with the same modules, names and dropout, but as small as possible, and matching data.
/// Its weights are random; no file is read.
struct Shrunken {
  std::shared_ptr<const Model> model;
  DatasetDescription data;
};

/// A model that can be shrunk to compare ways of computing its gradient. Other models are compared
/// at full size.
class ShrinkableModel {
 public:
  virtual ~ShrinkableModel() = default;
  /// Returns the small model for `data`. This model's forward() can also run the small model's
  /// networks.
  virtual Shrunken shrunken(const DatasetDescription& data) const = 0;
};

/// Trained weights, and how to run them.
class Checkpoint : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kCheckpoint;
  runner::ArtifactType type() const final { return kType; }
  runner::HeldMemory held() const final;

  /// Returns a description of the data that the network was built for; `size` is the number of
  /// samples.
  DatasetDescription trained_on(std::int64_t size) const;
  /// Stores what predictions need to know about the data that the network is built for.
  void describe(const DatasetDescription& data);

  /// In eval mode, on the run's device; its values never change again. Null if the training stage
  /// has released it.
  std::shared_ptr<torch::nn::Module> network;
  /// Set if the network was released: builds it again and reads its weights from `file`. Throws
  /// runner::StageError.
  std::function<std::shared_ptr<torch::nn::Module>()> load = {};
  /// Returns `network`, or a newly loaded one that the caller owns.
  std::shared_ptr<torch::nn::Module> opened() const { return network ? network : load(); }
  std::shared_ptr<const Model> model;
  std::string model_stage;   ///< the model's stage, as named in memory.precision
  NumericsOptions numerics;  ///< as in training; also used for predictions
  std::vector<std::string> classes;
  std::vector<std::string> class_words;  ///< the class names as used in texts
  std::int64_t pair_of = 0;  ///< as in DatasetDescription; above 0, one logit separates two classes
  OrdinalHead ordinal = OrdinalHead::kNone;  ///< as in DatasetDescription
  TrainedTargets targets;                    ///< for a network that predicts targets
  std::vector<TensorSpec> inputs;            ///< the tensors of its training samples
  std::string transform;                     ///< the transform of its training data
  std::int64_t epoch = 0, step = 0;          ///< when the weights were saved
  std::filesystem::path file;                ///< the safetensors file
  /// Validation metrics by name; empty: not measured.
  std::map<std::string, double> validation;
  /// "averaged" or "trained" if these weights were saved by an earlier run that averaged its
  /// weights; otherwise empty.
  std::string weights;
};

/// Implemented by a Model with a well-known architecture name, such as "densenet121".
class NamedModel {
 public:
  virtual ~NamedModel() = default;
  virtual std::string architecture() const = 0;
};

}  // namespace stages
