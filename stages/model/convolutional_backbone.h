#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "stages/model/bottleneck_network.h"
#include "stages/model/convolutional_networks.h"
#include "stages/model/resnet.h"

namespace stages {

/// A convolutional network without its classifier: one of timm's, a ResNet of basic blocks, or the
/// small network used in few-shot learning.
using ConvolutionalBackbone = std::variant<BottleneckOptions, DenseOptions, InvertedResidualOptions,
                                           ResNetOptions, ConvNetworkOptions>;

/// Returns timm's names for the architectures in the model.cnn schema.
std::array<std::pair<std::string_view, ConvolutionalBackbone>, 5> convolutional_architectures();

/// Creates the network with uninitialized weights.
std::shared_ptr<FeatureMaps> make_backbone(const ConvolutionalBackbone& backbone,
                                           const at::TensorOptions& options);

/// Returns the same architecture with only a few channels.
ConvolutionalBackbone shrunken_backbone(const ConvolutionalBackbone& backbone);

/// Returns the backbone with stochastic depth (Huang et al. 2016, arXiv:1603.09382), which skips
/// the residual branches of blocks as in timm; nullopt if it has no residual blocks.
std::optional<ConvolutionalBackbone> with_drop_path(ConvolutionalBackbone backbone,
                                                    double drop_path);

/// Draws the weights of a backbone by timm's rules; each weight is a function of `seed`, its name
/// and its shape.
void initialize_backbone(const ConvolutionalBackbone& backbone, FeatureMaps& network,
                         std::uint64_t seed);

}  // namespace stages
