#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "stages/model/conv_network.h"
#include "stages/model/resnet.h"

namespace runner {
class ConfigReader;
}

namespace stages {

class ResNetPlaces;
struct SavedWeights;

/// The options of schemas/model/backbone/conv and resnet: what turns the images of an episode into maps of features.
struct EpisodeBackbone {
  std::string pointer;  ///< where they stand, "/model/backbone": build() runs inside another stage
  std::variant<ConvNetworkOptions, ResNetOptions> network;
  std::optional<std::string> weights;        ///< a reference (saved_weights.h); nullopt: random
  std::optional<std::string> weights_entry;  ///< of them, where the file has several
  bool is_trainable = true;

  /// True where nothing of it is trained or collected, and what it makes of an image depends on no other.
  bool is_fixed() const;
  /// Without values, in float32.
  std::shared_ptr<FeatureMaps> make(const at::TensorOptions& options) const;
  /// "conv of 4 blocks", "ResNet-18".
  std::string name() const;
};

/// Reads the section `backbone` of a model's options. What is wrong becomes an error of `reader`. Looks whether the
/// weights are there, and reads none.
EpisodeBackbone read_episode_backbone(runner::ConfigReader& reader);

/// What the backbone makes of images of that size. Throws runner::StageError where they are too small.
MapShape fitting_map(const EpisodeBackbone& backbone, const FeatureMaps& network, std::int64_t height,
                     std::int64_t width);

/// Where the saved weights go in such a network. Throws runner::StageError where they do not fit.
std::unique_ptr<ResNetPlaces> weight_places(const EpisodeBackbone& backbone, FeatureMaps& network,
                                            const SavedWeights& saved);

}  // namespace stages
