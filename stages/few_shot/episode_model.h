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
  std::string pointer;  ///< where the options stand, "/model/backbone": build() runs inside another
                        ///< stage
  std::variant<ConvNetworkOptions, ResNetOptions> network;
  std::optional<std::string> weights;        ///< a reference (saved_weights.h); nullopt: random
  std::optional<std::string> weights_entry;  ///< which of the weights, if the file has several
  bool is_trainable = true;

  /// True if nothing in it is trained or collects statistics, and its output for an image does not
  /// depend on other images.
  bool is_fixed() const;
  /// Uninitialized, in float32.
  std::shared_ptr<FeatureMaps> make(const at::TensorOptions& options) const;
  /// "conv of 4 blocks", "ResNet-18".
  std::string name() const;
};

/// Reads the section `backbone` of a model's options. Mistakes become errors of `reader`. Checks
/// that the weights exist, but does not read them.
EpisodeBackbone read_episode_backbone(runner::ConfigReader& reader);

/// The shape of the feature map for images of that size. Throws runner::StageError if they are too
/// small.
MapShape fitting_map(const EpisodeBackbone& backbone, const FeatureMaps& network,
                     std::int64_t height, std::int64_t width);

/// Where the saved weights go in such a network. Throws runner::StageError if they do not fit.
std::unique_ptr<ResNetPlaces> weight_places(const EpisodeBackbone& backbone, FeatureMaps& network,
                                            const SavedWeights& saved);

/// What model.few_shot_transformer and model.cross_transformer share.
struct EpisodeModelConfig {
  std::string pointer;  ///< where the model's options stand, "/model"
  EpisodeBackbone backbone;
  std::variant<FewShotHeadOptions, CrossHeadOptions> head;
};

/// A model whose samples are episodes (stages/few_shot/model_few_shot_transformer.h). build() makes
/// an EpisodeNetwork.
class EpisodeModel : public Model, public ShrinkableModel {
 public:
  /// `saved` are the shapes of the backbone's weights and their digest. Each build() reads the
  /// values again, so that no copy is kept in addition to a network. null: the weights are random;
  /// those of a frozen backbone depend only on `base_seed`.
  EpisodeModel(EpisodeModelConfig config, std::shared_ptr<const SavedWeights> saved,
               std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// Throws if the saved weights have changed in the meantime.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// Same as EpisodeNetwork::forward().
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  /// A row is an episode; episodes go through the network one after the other.
  bool mixes_samples() const override { return false; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;
  /// True if the backbone is fixed; its samples are single images.
  bool has_frozen_features() const override { return config_.backbone.is_fixed(); }
  std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& images) const override;
  std::shared_ptr<torch::nn::Module> outline_frozen(
      const DatasetDescription& images) const override;
  NamedTensors frozen_features(torch::nn::Module& network,
                               const NamedTensors& inputs) const override;

  /// Throws as build() does if the saved weights do not fit the backbone. Needs only their shapes.
  void check_weights() const;

 private:
  /// Uninitialized.
  std::shared_ptr<EpisodeNetwork> make(const DatasetDescription& data, at::Device device) const;
  std::shared_ptr<FeatureMaps> make_backbone(const DatasetDescription& images,
                                             at::Device device) const;
  /// Returns a line about the origin of the weights, or "".
  std::string fill_backbone(FeatureMaps& backbone, std::uint64_t seed) const;

  const EpisodeModelConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

/// Makes the stage of such a model. Reads `backbone`, which both kinds have, into `config`, whose
/// head has already been read. The result has all errors of both.
runner::Result<std::unique_ptr<runner::Stage>> episode_model_stage(runner::ConfigReader& reader,
                                                                   EpisodeModelConfig config);

class EpisodeNetwork;
class FeatureMaps;

/// Initializes every weight of the network's head. Linear layers and convolutions follow torch's
/// default, uniform within 1 / sqrt(fan-in); prototypes start as means. A weight is a function of
/// the seed, its name and its shape.
void initialize_head(EpisodeNetwork& network, std::uint64_t seed);
/// Initializes the backbone. Convolutions are normal with variance 2 / (outputs · kernel), He
/// initialization with fan-out, which preserves the variance in the backward pass (He and others
/// 2015, arXiv:1502.01852). Their biases follow torch's default.
void initialize_backbone(FeatureMaps& backbone, std::uint64_t seed);

}  // namespace stages
