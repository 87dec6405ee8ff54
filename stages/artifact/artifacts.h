#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/stage/artifact.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/machine/allocator_settings.h"
#include "stages/tensor/batch.h"
#include "stages/numerics/numerics.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Name, shape (without the batch's dimension) and type of one tensor of a sample.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;
};

/// A dataset from metadata only: no file is decoded for it.
struct DatasetDescription {
  std::int64_t size = 0;
  std::vector<TensorSpec> tensors;   ///< of one sample, e.g. {"image", {3, 96, 96}, float}, {"label", {}, int64}
  std::vector<std::string> classes;  ///< names in order of their label; empty when there are no labels
  std::string transform = {};  ///< JSON: how a file becomes the tensors, without augmentation; empty: cannot be said
  bool augmented = false;      ///< a sample depends on the epoch
  /// Of features: what they were computed from. Models are built for that, and checkpoints remember that.
  std::shared_ptr<const DatasetDescription> source = {};
};

/// What the samples were before their features were computed; `data` itself where they are no features.
inline const DatasetDescription& source_of(const DatasetDescription& data) { return data.source ? *data.source : data; }

/// How samples are read ahead. No option changes a bit of what is read.
struct LoaderOptions {
  std::int64_t workers = 0;   ///< threads; 0: the caller's
  std::int64_t prefetch = 2;  ///< batches held ready
  bool pinned = false;        ///< page-locked memory, for copies to a GPU
  bool drop_last = false;     ///< leave out an incomplete last batch of an epoch, in training
};

/// A finite set of samples, indexable and stateless: a sample is a function of (seed, epoch, index).
class Dataset : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kDataset;
  runner::ArtifactType type() const final { return kType; }

  virtual DatasetDescription describe() const = 0;
  /// The tensors of sample `index`. Thread-safe. Throws runner::StageError for a sample that cannot be read, and
  /// returns nullopt for one that the recipe says to skip.
  virtual std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const = 0;
  /// For messages and records: the file below the root, say.
  virtual std::string sample_name(std::int64_t index) const = 0;
  virtual LoaderOptions loader() const = 0;
};

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
  /// Lines for the person who watches, about a network made by build(): where its weights are from.
  virtual std::vector<std::string> notes(const torch::nn::Module& /*network*/) const { return {}; }

  /// True if a part of the network is never trained, draws nothing at random, sees each row alone and stands in front
  /// of all that is. build() gives it the same values whatever its seed.
  virtual bool has_frozen_features() const { return false; }
  /// What that part makes of the rows of `inputs`: {"features": (n, …)}. Only where has_frozen_features().
  virtual NamedTensors frozen_features(torch::nn::Module& /*network*/, const NamedTensors& /*inputs*/) const {
    return {};
  }
};

/// What a run is allowed to do with memory. Data, not deeds: the trainer and the planner read it.
class MemoryPolicy : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kMemoryPolicy;
  runner::ArtifactType type() const final { return kType; }

  std::string pointer;                      ///< where the recipe says it, "/memory"
  std::optional<std::int64_t> micro_batch;  ///< units of a batch run at once; nullopt: the whole batch
  PrecisionMap precision;                   ///< its rules begin with the name of the stage that makes the network
  bool tf32 = false;
  std::optional<Layout> layout;  ///< nullopt: as kLayoutRule says
  bool two_pass = false;         ///< encode micro-batches twice, so that a loss over the whole batch can be cut
  ActivationCheckpointing activation_checkpointing;
  std::optional<std::int64_t> budget;  ///< bytes; nullopt: what the device has
  double memory_fraction = 1;          ///< of what the device has; the smaller of it and the budget holds
  EmptyCacheEvery empty_cache_every;
  AllocatorSettings allocator;

  NumericsOptions numerics() const { return {precision, tf32, layout, pointer}; }
};

/// Trained weights, and how to run them.
class Checkpoint : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kCheckpoint;
  runner::ArtifactType type() const final { return kType; }

  std::shared_ptr<torch::nn::Module> network;  ///< in eval mode, on the run's device; its values never change again
  std::shared_ptr<const Model> model;
  std::string model_stage;  ///< the stage that the model comes from, as memory.precision names it
  std::vector<std::string> classes;
  std::vector<TensorSpec> inputs;    ///< of the samples it was trained on
  std::string transform;             ///< of its training data
  std::int64_t epoch = 0, step = 0;  ///< when the weights were taken
  std::filesystem::path file;        ///< the safetensors file
};

/// What a network said about each sample.
class Predictions : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kPredictions;
  runner::ArtifactType type() const final { return kType; }

  std::vector<std::string> names;  ///< one a sample
  at::Tensor scores;               ///< (n, classes) float32 on the CPU: probabilities
  at::Tensor labels;               ///< (n) int64 on the CPU
  std::vector<std::string> classes;
};

/// Named numbers, e.g. "top1".
class Metrics : public runner::Artifact {
 public:
  static constexpr auto kType = runner::ArtifactType::kMetrics;
  runner::ArtifactType type() const final { return kType; }

  std::vector<std::pair<std::string, double>> values;
};

}  // namespace stages
