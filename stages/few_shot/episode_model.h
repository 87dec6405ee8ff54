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

/// The options of schemas/model/backbone/conv and resnet: what turns the images of an episode into
/// maps of features.
struct EpisodeBackbone {
  std::string pointer;  ///< where they stand, "/model/backbone": build() runs inside another stage
  std::variant<ConvNetworkOptions, ResNetOptions> network;
  std::optional<std::string> weights;        ///< a reference (saved_weights.h); nullopt: random
  std::optional<std::string> weights_entry;  ///< of them, where the file has several
  bool is_trainable = true;

  /// True where nothing of it is trained or collected, and what it makes of an image depends on no
  /// other.
  bool is_fixed() const;
  /// Without values, in float32.
  std::shared_ptr<FeatureMaps> make(const at::TensorOptions& options) const;
  /// "conv of 4 blocks", "ResNet-18".
  std::string name() const;
};

/// Reads the section `backbone` of a model's options. What is wrong becomes an error of `reader`.
/// Looks whether the weights are there, and reads none.
EpisodeBackbone read_episode_backbone(runner::ConfigReader& reader);

/// What the backbone makes of images of that size. Throws runner::StageError where they are too
/// small.
MapShape fitting_map(const EpisodeBackbone& backbone, const FeatureMaps& network,
                     std::int64_t height, std::int64_t width);

/// Where the saved weights go in such a network. Throws runner::StageError where they do not fit.
std::unique_ptr<ResNetPlaces> weight_places(const EpisodeBackbone& backbone, FeatureMaps& network,
                                            const SavedWeights& saved);

/// What model.few_shot_transformer and model.cross_transformer have in common.
struct EpisodeModelConfig {
  std::string pointer;  ///< where the model's options stand, "/model"
  EpisodeBackbone backbone;
  std::variant<FewShotHeadOptions, CrossHeadOptions> head;
};

/// A model whose samples are episodes (stages/few_shot/model_few_shot_transformer.h). build() makes
/// an EpisodeNetwork.
class EpisodeModel : public Model, public ShrinkableModel {
 public:
  /// `saved` are the shapes of the backbone's weights and their digest: each build() reads the
  /// numbers anew, so that none are kept beside a network. null: they are random, those of a frozen
  /// backbone by `base_seed` alone.
  EpisodeModel(EpisodeModelConfig config, std::shared_ptr<const SavedWeights> saved,
               std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// Throws where the saved weights have changed meanwhile.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override;
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override;
  /// As EpisodeNetwork::forward().
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override;
  /// A row is an episode, and one after the other goes through the network.
  bool mixes_samples() const override { return false; }
  Shrunken shrunken(const DatasetDescription& data) const override;
  std::vector<std::string> notes(const torch::nn::Module& network) const override;
  /// Where the backbone is fixed; its samples are single images.
  bool has_frozen_features() const override { return config_.backbone.is_fixed(); }
  std::shared_ptr<torch::nn::Module> build_frozen(const DatasetDescription& images) const override;
  std::shared_ptr<torch::nn::Module> outline_frozen(
      const DatasetDescription& images) const override;
  NamedTensors frozen_features(torch::nn::Module& network,
                               const NamedTensors& inputs) const override;

  /// Throws as build() does where the saved weights do not fit the backbone; their shapes alone
  /// need be there.
  void check_weights() const;

 private:
  /// Without values.
  std::shared_ptr<EpisodeNetwork> make(const DatasetDescription& data, at::Device device) const;
  std::shared_ptr<FeatureMaps> make_backbone(const DatasetDescription& images,
                                             at::Device device) const;
  /// Returns a line about where its weights are from, or "".
  std::string fill_backbone(FeatureMaps& backbone, std::uint64_t seed) const;

  const EpisodeModelConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

/// The stage of such a model: reads `backbone`, which both kinds have, into `config`, whose head
/// has been read. Everything wrong with any of them is in the result.
runner::Result<std::unique_ptr<runner::Stage>> episode_model_stage(runner::ConfigReader& reader,
                                                                   EpisodeModelConfig config);

class EpisodeNetwork;
class FeatureMaps;

/// Draws every weight of the network's head: of linear layers and convolutions by torch's own rule,
/// uniform within 1 / sqrt(inputs of an output); prototypes are means at first. A weight is a
/// function of the seed, its name and its shape.
void initialize_head(EpisodeNetwork& network, std::uint64_t seed);
/// The same of such a network's backbone: convolutions normal with the variance 2 / (outputs ·
/// kernel), which keeps that of what goes backward (He and others 2015, arXiv:1502.01852), their
/// biases by torch's rule.
void initialize_backbone(FeatureMaps& backbone, std::uint64_t seed);

}  // namespace stages
