#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runner/shared/error/result.h"
#include "stages/artifact/model.h"
#include "stages/few_shot/cross_head.h"
#include "stages/few_shot/episode_backbone.h"
#include "stages/few_shot/episode_network.h"
#include "stages/few_shot/few_shot_head.h"
#include "stages/weights/saved_weights.h"

namespace runner {
class ConfigReader;
class Stage;
}  // namespace runner

namespace stages {

/// What model.few_shot_transformer and model.cross_transformer have in common.
struct EpisodeModelConfig {
  std::string pointer;  ///< where the model's options stand, "/model"
  EpisodeBackbone backbone;
  std::variant<FewShotHeadOptions, CrossHeadOptions> head;
};

/// A model whose samples are episodes (stages/few_shot/episode_images.h). build() makes an EpisodeNetwork.
class EpisodeModel : public Model, public ShrinkableModel {
 public:
  /// `saved` are the shapes of the backbone's weights and their digest: each build() reads the numbers anew, so that
  /// none are kept beside a network. null: they are random, those of a frozen backbone by `base_seed` alone.
  EpisodeModel(EpisodeModelConfig config, std::shared_ptr<const SavedWeights> saved, std::uint64_t base_seed)
      : config_(std::move(config)), saved_(std::move(saved)), base_seed_(base_seed) {}

  /// Throws where the saved weights have changed meanwhile.
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data, std::uint64_t seed) const override;
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
  std::shared_ptr<torch::nn::Module> outline_frozen(const DatasetDescription& images) const override;
  NamedTensors frozen_features(torch::nn::Module& network, const NamedTensors& inputs) const override;

  /// Throws as build() does where the saved weights do not fit the backbone; their shapes alone need be there.
  void check_weights() const;

 private:
  /// Without values.
  std::shared_ptr<EpisodeNetwork> make(const DatasetDescription& data, at::Device device) const;
  std::shared_ptr<FeatureMaps> make_backbone(const DatasetDescription& images, at::Device device) const;
  /// Returns a line about where its weights are from, or "".
  std::string fill_backbone(FeatureMaps& backbone, std::uint64_t seed) const;

  const EpisodeModelConfig config_;
  const std::shared_ptr<const SavedWeights> saved_;
  const std::uint64_t base_seed_;
};

/// The stage of such a model: reads `backbone`, which both kinds have, into `config`, whose head has been read.
/// Everything wrong with any of them is in the result.
runner::Result<std::unique_ptr<runner::Stage>> episode_model_stage(runner::ConfigReader& reader,
                                                                   EpisodeModelConfig config);

}  // namespace stages
