#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/train/optimizer.h"

namespace torch::nn {
class Module;
}

namespace stages {

struct TrainerOptions;

/// The layers of a network, for learning rates that depend on depth, as in BEiT (Bao et al.,
/// arXiv:2106.08254) and MAE (He et al., arXiv:2111.06377). Layer 0 contains everything registered
/// before the first block, layer i + 1 contains block i and what follows it, and the last layer
/// contains everything after the last block, such as a norm and the head. timm counts the norm
/// after the last block of a ViT to that block.
class NetworkLayers {
 public:
  explicit NetworkLayers(const torch::nn::Module& network);

  /// Number of layers; 1 if the network has no blocks.
  std::int64_t count() const { return static_cast<std::int64_t>(blocks_.size()) + 2 - is_flat(); }
  /// Returns the layer of the parameter with this dotted name.
  std::int64_t layer_of(const std::string& parameter) const;

 private:
  bool is_flat() const { return blocks_.empty(); }
  std::vector<std::string> blocks_;
  std::vector<std::string> parameters_;  // in the order of registration
  std::vector<std::int64_t> layers_;     // of the parameters
};

/// Calls divide_parameters() with the options of a training run. With layer_decay, each group is
/// divided again, by layer: a layer's learning rate is layer_decay times that of the next layer,
/// and the last layer uses the group's own rate. Throws runner::StageError if the network has no
/// blocks.
std::vector<ParameterGroup> groups_of_training(torch::nn::Module& network,
                                               const TrainerOptions& options);

}  // namespace stages
