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
#include "stages/model/vision_tower.h"
#include "stages/weights/saved_weights.h"
#include "stages/weights/weights.h"

namespace stages {

/// The OnFrozenBase of a network whose base consists of the parameters that need no gradient.
class FrozenBase : public OnFrozenBase {
 public:
  bool is_base(std::string_view weight) const override { return base_weights_.contains(weight); }
  const std::string& base() const override { return base_; }

 protected:
  /// From now on the parameters of `network` that need no gradient are the base; `base` identifies
  /// them.
  void freeze(const torch::nn::Module& network, std::string base);

 private:
  std::set<std::string, std::less<>> base_weights_;
  std::string base_;
};

/// The options that model.linear_probe and model.lora share.
struct FineTunedConfig {
  std::string pointer;  ///< place of the model's options in the recipe, "/model"
  BackboneConfig backbone;
  std::optional<std::int64_t> num_classes;  ///< nullopt: the number of the data's classes
  std::optional<LoraOptions> lora;          ///< nullopt: train only the head
  std::optional<std::string>
      adapter;  ///< a folder in peft's format to start from; nullopt: a new adapter
};

/// A classifier whose backbone is given and frozen, made by FineTuned::build().
class FineTunedClassifier : public ImageClassifier, public FrozenBase {
 public:
  explicit FineTunedClassifier(const ImageClassifierOptions& options,
                               const at::TensorOptions& tensors = {})
      : ImageClassifier(options, tensors) {}

  /// From now on the parameters that need no gradient are the base; `base` identifies them.
  void freeze(std::string base) { FrozenBase::freeze(*this, std::move(base)); }

  std::vector<std::string> notes;                ///< where its weights come from
  WeightLayout layout = WeightLayout::kClip;     ///< the names by which its layers are selected and
                                                 ///< exported
  std::optional<std::string> weights_reference;  ///< of its base; nullopt: random
  std::optional<AttachedLora> lora;              ///< its adapters, if any
};

/// A frozen backbone and a linear head. Either only the head is trained, or the head and adapters
/// of the backbone.
class FineTuned : public Model, public ShrinkableModel {
 public:
  /// `config` has no open options. `saved` holds the shapes of its weights and their digest: each
  /// build() reads the values again, so none are kept next to a network. null: they are random,
  /// drawn by `base_seed` alone.
  FineTuned(FineTunedConfig config, std::shared_ptr<const SavedWeights> saved,
            std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// Makes a FineTunedClassifier; `seed` is for its head and adapters. Frozen weights are in
  /// backbone.dtype from the start. Throws if the saved weights have changed meanwhile.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image" (n, 3, size, size), or "features" (n, width) instead, and returns {"logits",
  /// "features"}.
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  /// Throws as build() does if the saved weights do not fit the backbone; needs only their shapes.
  void check_base() const;
  bool mixes_samples() const override { return false; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  bool has_frozen_features() const override { return !config_.lora; }
  NamedTensors frozen_features(torch::nn::Module& network,
                               const NamedTensors& inputs) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;

 private:
  /// The network in its types, frozen except for its head and its adapters; the base is
  /// uninitialized.
  std::shared_ptr<FineTunedClassifier> make(const DatasetDescription& data, std::uint64_t seed,
                                            at::Device device) const;
  void fill_base(FineTunedClassifier& network) const;
  /// Where the saved weights go in `network`. Throws if they do not fit.
  std::unique_ptr<PretrainedPlaces> places_in(torch::nn::Module& network) const;
  void check_fit(const PretrainedReport& report) const;
  AttachedLora attach(FineTunedClassifier& network, std::uint64_t seed) const;
  /// Adds notes on adapter options without effect, and loads the adapter that they name.
  void begin_from_adapter(FineTunedClassifier& network) const;
  std::string base_text(const FineTunedClassifier& network) const;

  const FineTunedConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

}  // namespace stages
