#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/model/attached_lora.h"
#include "stages/model/backbone.h"
#include "stages/model/initializer.h"
#include "stages/model/vision_tower.h"
#include "stages/weights/saved_weights.h"
#include "stages/weights/weights.h"

namespace stages {

class TextHead;

/// Implements OnFrozenBase for a network: the parameters that do not require gradients are the
/// base.
class FrozenBase : public OnFrozenBase {
 public:
  bool is_base(std::string_view weight) const override { return base_weights_.contains(weight); }
  const std::string& base() const override { return base_; }

 protected:
  /// Declares the parameters of `network` that do not require gradients to be the base; `base`
  /// identifies them.
  void freeze(const torch::nn::Module& network, std::string base);

 private:
  std::set<std::string, std::less<>> base_weights_;
  std::string base_;
};

/// The options shared by model.linear_probe, model.lora and model.full.
struct FineTunedConfig {
  std::string pointer;  ///< location of the model's options in the recipe, "/model"
  BackboneConfig backbone;
  std::optional<std::int64_t> num_classes;  ///< nullopt: the number of classes in the data
  std::optional<LoraOptions> lora;          ///< nullopt: no adapters
  bool trains_all = false;                  ///< train the backbone too; `lora` is then not set
  HeadStart head_start = HeadStart::kUniform;
  std::vector<std::string> templates;  ///< for the class captions; read if head_start is kZeroShot
  std::shared_ptr<const TextHead> text_head;  ///< set if head_start is kZeroShot
  double dropout = 0;    ///< probability that a feature is dropped before the head, in training
  double drop_path = 0;  ///< as in VisionTowerOptions
  std::optional<std::string>
      adapter;  ///< a folder in peft's format to start from; nullopt: a new adapter
};

/// A classifier on a given backbone, created by FineTuned::build().
class FineTunedClassifier : public ImageClassifier, public FrozenBase, public FromOrigin {
 public:
  explicit FineTunedClassifier(const ImageClassifierOptions& options,
                               const at::TensorOptions& tensors = {})
      : ImageClassifier(options, tensors) {}

  /// Declares the parameters that do not require gradients to be the base; `base` identifies them.
  void freeze(std::string base) { FrozenBase::freeze(*this, std::move(base)); }

  /// True for the backbone's weights if all weights are trained.
  bool is_of_origin(std::string_view weight) const override;
  const std::string& origin() const override { return origin_; }
  /// Declares that the backbone is trained from its current weights; `origin` identifies them.
  void start_from(std::string origin);

  std::vector<std::string> notes;                ///< where its weights come from
  WeightLayout layout = WeightLayout::kClip;     ///< the names by which its layers are selected and
                                                 ///< exported
  std::optional<std::string> weights_reference;  ///< reference to the base weights; nullopt: they
                                                 ///< are random
  std::optional<AttachedLora> lora;              ///< its adapters, if any

 private:
  bool is_all_trained_ = false;
  std::string origin_;
};

/// A given backbone and a linear head. Training updates the head alone, the head and the adapters
/// of the frozen backbone, or all weights.
class FineTuned : public Model, public ShrinkableModel {
 public:
  /// `config` must have no unresolved options. `saved` contains the shapes and the digest of the
  /// weights; each build() reads their values again, so there is only one copy of them. If `saved`
  /// is null, the base weights are random and depend only on `base_seed`.
  FineTuned(FineTunedConfig config, std::shared_ptr<const SavedWeights> saved,
            std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// Creates a FineTunedClassifier; `seed` is for its head and adapters. Frozen weights are in
  /// backbone.dtype from the start. Throws if the saved weights no longer have the digest in
  /// `saved`.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// The result's head is random, since it is not used to compute features.
  std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& data) const override;
  std::shared_ptr<torch::nn::Module> outline_frozen(const DatasetDescription& data) const override;
  /// Reads "image" (n, 3, size, size), or "features" (n, width) instead, and returns {"logits",
  /// "features"}.
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  /// Throws like build() if the saved weights do not match the backbone. Reads only their shapes.
  void check_base() const;
  bool mixes_samples() const override { return false; }
  bool builds_in_shards() const override;
  bool has_ordinal_head(OrdinalHead /*head*/) const override { return true; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  bool has_frozen_features() const override { return !config_.lora && !config_.trains_all; }
  NamedTensors frozen_features(torch::nn::Module& network,
                               const NamedTensors& inputs) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;

 private:
  /// Creates the network, with every weight in its final type; only the trained parameters require
  /// gradients. The base weights are uninitialized.
  std::shared_ptr<FineTunedClassifier> make(const DatasetDescription& data, std::uint64_t seed,
                                            at::Device device) const;
  void fill_base(FineTunedClassifier& network) const;
  /// Finds where the saved weights belong in `network`. Throws if they do not match.
  std::unique_ptr<PretrainedPlaces> places_in(torch::nn::Module& network) const;
  void check_fit(const PretrainedReport& report) const;
  /// Returns, on `device` (the CPU or Meta), the rows of a head that is initialized from texts;
  /// undefined if the head is initialized differently.
  at::Tensor text_rows(const DatasetDescription& data, at::Device device) const;
  std::shared_ptr<torch::nn::Module> built(const DatasetDescription& data, std::uint64_t seed,
                                           HeadStart start) const;
  AttachedLora attach(FineTunedClassifier& network, std::uint64_t seed) const;
  /// Loads the adapter that the options specify, if any, and adds notes on options that have no
  /// effect.
  void begin_from_adapter(FineTunedClassifier& network) const;
  std::string base_text(const FineTunedClassifier& network) const;

  const FineTunedConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

}  // namespace stages
