#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stages/train/optimizer.h"
#include "stages/train/parameter_groups.h"

namespace torch::nn {
class Module;
}

namespace stages {

struct TrainerOptions;

/// The layer that a parameter belongs to.
struct NetworkLayer {
  std::string tower;        ///< empty for a network without towers, and outside all towers
  std::int64_t number = 0;  ///< 0 for everything before the first block
  std::int64_t above = 0;   ///< number of layers between it and the output: 0 for the last
};

/// The layers of a network, for learning rates that depend on depth, as in BEiT (Bao et al.,
/// arXiv:2106.08254) and MAE (He et al., arXiv:2111.06377). Layer 0 contains everything registered
/// before the first block, layer i + 1 contains block i and what follows it, and the last layer
/// contains everything after the last block, such as a norm and the head. timm includes the norm
/// after the last block of a ViT in that block.
///
/// Towers are divided separately, so that the last layer of each has the full learning rate.
/// Parameters outside all towers, such as a logit scale, count as a last layer.
class NetworkLayers {
 public:
  /// Without towers, the whole network is divided.
  explicit NetworkLayers(const torch::nn::Module& network,
                         const std::vector<NetworkPart>& towers = {});

  /// Returns the layer of the parameter with this dotted name.
  NetworkLayer layer_of(const std::string& parameter) const;
  /// Returns the name of the first tower without blocks; "" also stands for the whole network.
  const std::optional<std::string>& without_blocks() const { return without_blocks_; }

 private:
  void divide(const std::string& tower, const std::vector<std::string>& parameters,
              const std::vector<std::string>& blocks);

  std::map<std::string, NetworkLayer> layers_;  // by parameter
  std::optional<std::string> without_blocks_;
};

/// Calls divide_parameters() with the options of a training run. With layer_decay, each group is
/// divided again, by layer: a layer's learning rate is layer_decay times that of the next layer,
/// and the last layer uses the group's own rate. Throws runner::StageError if the network, or one
/// of its towers, has no blocks.
std::vector<ParameterGroup> groups_of_training(torch::nn::Module& network,
                                               const TrainerOptions& options);

}  // namespace stages
