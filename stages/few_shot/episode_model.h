#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/few_shot/model_few_shot_transformer.h"
#include "stages/model/convolutional_networks.h"
#include "stages/model/resnet.h"
#include "stages/weights/saved_weights.h"

namespace runner {
class ConfigReader;
}

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

class ResNetPlaces;
struct SavedWeights;

/// The options of schemas/model/backbone/conv and resnet: the network that turns the images of an
/// episode into feature maps.
struct EpisodeBackbone {
  std::string pointer;  ///< location in the recipe, such as "/model/backbone", for errors in
                        ///< build(), which runs inside another stage
  std::variant<ConvNetworkOptions, ResNetOptions> network;
  std::optional<std::string> weights;  ///< reference to the weights (saved_weights.h); nullopt:
                                       ///< random weights
  std::optional<std::string> weights_entry;  ///< the weights to read if the file has several
  bool is_trainable = true;

  /// True if no part of the backbone is trained or collects statistics, and its output for an image
  /// does not depend on other images.
  bool is_fixed() const;
  /// Creates the network with uninitialized weights.
  std::shared_ptr<FeatureMaps> make(const at::TensorOptions& options) const;
  /// Returns the backbone's name for messages: "conv of 4 blocks", "ResNet-18".
  std::string name() const;
};

/// Reads the `backbone` section of a model's options; `reader` collects the errors. Checks that the
/// weights exist, but does not read them.
EpisodeBackbone read_episode_backbone(runner::ConfigReader& reader);

/// Returns the shape of the feature map for images of this size. Throws runner::StageError if they
/// are too small.
MapShape fitting_map(const EpisodeBackbone& backbone, const FeatureMaps& network,
                     std::int64_t height, std::int64_t width);

/// Finds where the saved weights belong in `network`, which was created by the backbone. Throws
/// runner::StageError if they do not match.
std::unique_ptr<ResNetPlaces> weight_places(const EpisodeBackbone& backbone, FeatureMaps& network,
                                            const SavedWeights& saved);

/// The options of model.few_shot_transformer and model.cross_transformer.
struct EpisodeModelConfig {
  std::string pointer;  ///< location of the model's options in the recipe, "/model"
  EpisodeBackbone backbone;
  std::variant<FewShotHeadOptions, CrossHeadOptions> head;
};

/// A model with episodes as samples (stages/few_shot/model_few_shot_transformer.h). build() creates
/// an EpisodeNetwork.
class EpisodeModel : public Model, public ShrinkableModel {
 public:
  /// `saved` contains the shapes and the digest of the backbone's weights; each build() reads their
  /// values again, so there is only one copy of them. If it is null, the weights are random; the
  /// weights of a frozen backbone then depend only on `base_seed`.
  EpisodeModel(EpisodeModelConfig config, std::shared_ptr<const SavedWeights> saved,
               std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// Throws if the saved weights no longer have the digest in `saved`.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Calls EpisodeNetwork::forward().
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  /// False: a sample is an episode, and the network processes episodes one after the other.
  bool mixes_samples() const override { return false; }
  bool builds_in_shards() const override { return true; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;
  /// True if the backbone is fixed. The frozen network's samples are single images.
  bool has_frozen_features() const override { return config_.backbone.is_fixed(); }
  std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& images) const override;
  std::shared_ptr<torch::nn::Module> outline_frozen(
      const DatasetDescription& images) const override;
  NamedTensors frozen_features(torch::nn::Module& network,
                               const NamedTensors& inputs) const override;

  /// Throws like build() if the saved weights do not match the backbone. Reads only their shapes.
  void check_weights() const;

 private:
  /// Creates the network with uninitialized weights.
  std::shared_ptr<EpisodeNetwork> make(const DatasetDescription& data, at::Device device) const;
  std::shared_ptr<FeatureMaps> make_backbone(const DatasetDescription& images,
                                             at::Device device) const;
  /// Loads or draws the weights. Returns a note on their origin, or "".
  std::string fill_backbone(FeatureMaps& backbone, std::uint64_t seed) const;

  const EpisodeModelConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

/// Creates the stage of model.few_shot_transformer or model.cross_transformer. Reads `backbone`,
/// which both kinds share, into `config`; config.head must be set. If options are invalid, returns
/// all their errors instead.
runner::Result<std::unique_ptr<runner::Stage>> episode_model_stage(runner::ConfigReader& reader,
                                                                   EpisodeModelConfig config);

class EpisodeNetwork;
class FeatureMaps;

/// Initializes every weight of the network's head. Linear layers and convolutions follow torch's
/// default, uniform within 1 / sqrt(fan-in); prototypes start as means. Each weight is a function
/// of the seed, its name and its shape.
void initialize_head(EpisodeNetwork& network, std::uint64_t seed);
/// Initializes the backbone. Convolution weights are normal with variance 2 / (outputs · kernel):
/// He initialization with fan-out, which preserves the variance in the backward pass (He et al.
/// 2015, arXiv:1502.01852). Their biases follow torch's default.
void initialize_backbone(FeatureMaps& backbone, std::uint64_t seed);

}  // namespace stages
