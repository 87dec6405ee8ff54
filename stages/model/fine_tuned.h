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

/// The OnFrozenBase of a network whose base are the parameters that need no gradient.
class FrozenBase : public OnFrozenBase {
 public:
  bool is_base(std::string_view weight) const override { return base_weights_.contains(weight); }
  const std::string& base() const override { return base_; }

 protected:
  /// From now on the parameters of `network` that need no gradient are the base, which `base`
  /// stands for.
  void freeze(const torch::nn::Module& network, std::string base);

 private:
  std::set<std::string, std::less<>> base_weights_;
  std::string base_;
};

/// What model.linear_probe and model.lora have in common.
struct FineTunedConfig {
  std::string pointer;  ///< where the model's options stand, "/model"
  BackboneConfig backbone;
  std::optional<std::int64_t> num_classes;  ///< nullopt: as many as the data's
  std::optional<LoraOptions> lora;          ///< nullopt: the head alone is trained
  std::optional<std::string>
      adapter;  ///< a folder of peft's form to begin from; nullopt: a new adapter
};

/// A classifier whose backbone is given and frozen. build() of a FineTuned makes it.
class FineTunedClassifier : public ImageClassifier, public FrozenBase {
 public:
  explicit FineTunedClassifier(const ImageClassifierOptions& options,
                               const at::TensorOptions& tensors = {})
      : ImageClassifier(options, tensors) {}

  /// From now on the parameters that need no gradient are the base, which `base` stands for.
  void freeze(std::string base) { FrozenBase::freeze(*this, std::move(base)); }

  std::vector<std::string> notes;             ///< where its weights are from
  WeightLayout layout = WeightLayout::kClip;  ///< by whose names its layers are chosen and exported
  std::optional<std::string> weights_reference;  ///< of its base; nullopt: random
  std::optional<AttachedLora> lora;              ///< its adapters, where it has some
};

/// A frozen backbone and a linear head; the head alone is trained, or it and the backbone's
/// adapters.
class FineTuned : public Model, public ShrinkableModel {
 public:
  /// `config` is settled, `saved` the shapes of its weights and their digest: each build() reads
  /// the numbers anew, so that none are kept beside a network. null: they are random, by
  /// `base_seed` alone.
  FineTuned(FineTunedConfig config, std::shared_ptr<const SavedWeights> saved,
            std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// A FineTunedClassifier; `seed` is that of its head and adapters. What stays frozen is in
  /// backbone.dtype from the start. Throws where the saved weights have changed meanwhile.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Reads "image" (n, 3, size, size), or "features" (n, width) in its place, and gives {"logits",
  /// "features"}.
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  /// Throws as build() does where the saved weights do not fit the backbone; their shapes alone
  /// need be there.
  void check_base() const;
  bool mixes_samples() const override { return false; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  bool has_frozen_features() const override { return !config_.lora; }
  NamedTensors frozen_features(torch::nn::Module& network,
                               const NamedTensors& inputs) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;

 private:
  /// Frozen but for its head and its adapters, in its types; the base has no values yet.
  std::shared_ptr<FineTunedClassifier> make(const DatasetDescription& data, std::uint64_t seed,
                                            at::Device device) const;
  void fill_base(FineTunedClassifier& network) const;
  /// Where the saved weights go in `network`. Throws where they do not fit.
  std::unique_ptr<PretrainedPlaces> places_in(torch::nn::Module& network) const;
  void check_fit(const PretrainedReport& report) const;
  AttachedLora attach(FineTunedClassifier& network, std::uint64_t seed) const;
  /// Says what of the options for adapters has no effect, and begins from the adapter that they
  /// name.
  void begin_from_adapter(FineTunedClassifier& network) const;
  std::string base_text(const FineTunedClassifier& network) const;

  const FineTunedConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

}  // namespace stages
