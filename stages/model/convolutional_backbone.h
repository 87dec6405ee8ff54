#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "stages/model/bottleneck_network.h"
#include "stages/model/dense_network.h"
#include "stages/model/inverted_residual_network.h"

namespace stages {

/// One of timm's convolutional networks, without its classifier.
using ConvolutionalBackbone = std::variant<BottleneckOptions, DenseOptions, InvertedResidualOptions>;

/// Those of the schema of model.cnn, by timm's names.
std::array<std::pair<std::string_view, ConvolutionalBackbone>, 5> convolutional_architectures();

/// Without values, in float32.
std::shared_ptr<FeatureMaps> make_backbone(const ConvolutionalBackbone& backbone, const at::TensorOptions& options);

/// The same with as few channels as may be.
ConvolutionalBackbone shrunken_backbone(const ConvolutionalBackbone& backbone);

/// Draws the weights of such a network by timm's rules; what becomes of each is a function of `seed` and its name
/// alone.
void initialize_backbone(const ConvolutionalBackbone& backbone, FeatureMaps& network, std::uint64_t seed);

}  // namespace stages
