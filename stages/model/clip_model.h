#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/model/backbone.h"
#include "stages/model/clip_network.h"
#include "stages/text/tokenizer.h"
#include "stages/weights/saved_weights.h"

namespace stages {

/// The options of model.clip.
struct ClipConfig {
  std::string pointer;   ///< location in the recipe, such as "/model", for errors in build(), which
                         ///< runs inside another stage
  BackboneConfig image;  ///< the image tower with its projection, and the weights of both towers;
                         ///< its pointer equals `pointer`
  TextTowerOptions text;  ///< its vocabulary and tokens come from the tokenizer
  bool has_class_head = true;
  std::optional<std::int64_t> num_classes;  ///< nullopt: the number of classes in the data
  double logit_scale = 0;                   ///< initial value if the weights are random
  std::optional<double> maximum_logit_scale;
  std::optional<double> logit_bias;  ///< initial value if the weights have none; nullopt: no bias
  bool cuts_texts = false;           ///< truncate texts longer than the context; false: reject them
  std::optional<ClipAdapterConfig> lora;  ///< nullopt: train all weights
  std::uint64_t base_seed = 0;            ///< for random base weights under adapters
};

/// CLIP with both towers. build() creates a ClipNetwork or, if adapters are trained, an
/// AdaptedClip.
class Clip : public Model, public ImageTextModel, public ShrinkableModel {
 public:
  /// `saved` contains the shapes and the digest of the weights; each build() reads their values
  /// again. If it is null, the weights are random. `config` must have no unresolved options.
  Clip(ClipConfig config, std::shared_ptr<const Tokenizer> tokenizer,
       std::shared_ptr<const SavedWeights> saved)
      : config_(std::move(config)), tokenizer_(std::move(tokenizer)), saved_(std::move(saved)) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  bool mixes_samples() const override { return false; }
  bool builds_in_shards() const override;
  void constrain(torch::nn::Module& network) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;
  Shrunken shrunken(const DatasetDescription& data) const override;

  TokenizedTexts tokenized(const std::vector<std::string>& texts) const override;
  bool has_class_head() const override { return config_.has_class_head; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  /// Throws like build() if the saved weights do not match the model. Reads only their shapes.
  void check_weights() const;

 private:
  ClipOptions fit(const DatasetDescription& data) const;
  std::shared_ptr<ClipNetwork> make(const DatasetDescription& data, std::uint64_t seed,
                                    at::Device device) const;
  void fill(ClipNetwork& network, std::uint64_t seed) const;
  std::string base_text(const ClipNetwork& network) const;
  std::unique_ptr<PretrainedPlaces> places_in(torch::nn::Module& network) const;

  const ClipConfig config_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::shared_ptr<const SavedWeights> saved_;
};

}  // namespace stages
