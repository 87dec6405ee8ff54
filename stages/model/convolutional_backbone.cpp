#include "stages/model/convolutional_backbone.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/model/initializer.h"

namespace stages {
namespace {

constexpr BottleneckOptions kSeResNeXt50 = {.cardinality = 32, .base_width = 4, .squeeze_ratio = 16};

/// How timm draws the weights of one family of networks.
enum class ConvolutionFamily { kResNet, kDenseNet, kEfficientNet };

ConvolutionFamily family_of(const ConvolutionalBackbone& backbone) {
  if (std::holds_alternative<BottleneckOptions>(backbone)) return ConvolutionFamily::kResNet;
  if (std::holds_alternative<DenseOptions>(backbone)) return ConvolutionFamily::kDenseNet;
  return ConvolutionFamily::kEfficientNet;
}

/// By He and others (2015), for ReLU: by what a layer makes, or in a DenseNet by what it sees. Only EfficientNet's rule
/// knows groups.
Distribution kaiming(const at::Tensor& weight, ConvolutionFamily family) {
  const std::int64_t area = weight.size(2) * weight.size(3);
  std::int64_t fan = weight.size(0) * area;
  if (family == ConvolutionFamily::kDenseNet) fan = weight.size(1) * area;
  // Only depthwise convolutions of these have groups: each channel of the output sees one.
  if (family == ConvolutionFamily::kEfficientNet && weight.size(1) == 1) fan = area;
  return {Distribution::Kind::kNormal, std::sqrt(2 / static_cast<double>(fan))};
}

class BackboneInitializer {
 public:
  BackboneInitializer(ConvolutionFamily family, std::uint64_t seed) : family_(family), seed_(seed) {}

  void operator()(const std::string& path, torch::nn::Module& module) const {
    if (const auto* convolution = module.as<Convolution>()) {
      draw(convolution->weight, path + ".weight", kaiming(convolution->weight, family_));
      if (convolution->bias.defined()) draw(convolution->bias, path + ".bias", bias_rule(*convolution));
    } else if (const auto* norm = module.as<BatchNorm>()) {
      // A block of a ResNet begins as what is added to it.
      const bool ends_branch = family_ == ConvolutionFamily::kResNet && path.ends_with(".bn3");
      draw(norm->weight, path + ".weight", {ends_branch ? Distribution::Kind::kZero : Distribution::Kind::kOne});
      draw(norm->bias, path + ".bias", {Distribution::Kind::kZero});
    }
  }

 private:
  void draw(const at::Tensor& weight, const std::string& name, const Distribution& distribution) const {
    draw_weight(weight, distribution, name, seed_);
  }
  Distribution bias_rule(const Convolution& convolution) const {
    if (family_ != ConvolutionFamily::kResNet) return {Distribution::Kind::kZero};
    return {Distribution::Kind::kUniform, 1 / std::sqrt(static_cast<double>(convolution.weight[0].numel()))};
  }

  const ConvolutionFamily family_;
  const std::uint64_t seed_;
};

}  // namespace

std::array<std::pair<std::string_view, ConvolutionalBackbone>, 5> convolutional_architectures() {
  return {{{"seresnext50_32x4d", kSeResNeXt50},
           {"resnet50", BottleneckOptions{}},
           {"densenet121", DenseOptions{}},
           {"efficientnet_b2", InvertedResidualOptions::efficient_net_b2()},
           {"mobilenetv2_100", InvertedResidualOptions::mobile_net_v2()}}};
}

std::shared_ptr<FeatureMaps> make_backbone(const ConvolutionalBackbone& backbone, const at::TensorOptions& options) {
  if (const auto* bottleneck = std::get_if<BottleneckOptions>(&backbone))
    return std::make_shared<BottleneckNetwork>(*bottleneck, options);
  if (const auto* dense = std::get_if<DenseOptions>(&backbone)) return std::make_shared<DenseNetwork>(*dense, options);
  return std::make_shared<InvertedResidualNetwork>(std::get<InvertedResidualOptions>(backbone), options);
}

ConvolutionalBackbone shrunken_backbone(const ConvolutionalBackbone& backbone) {
  if (const auto* bottleneck = std::get_if<BottleneckOptions>(&backbone)) {
    BottleneckOptions small = *bottleneck;
    small.planes = 4;
    small.cardinality = std::min<std::int64_t>(small.cardinality, 2);
    return small;
  }
  if (const auto* dense = std::get_if<DenseOptions>(&backbone)) {
    DenseOptions small = *dense;
    small.growth = 2;
    small.channels = 4;
    return small;
  }
  InvertedResidualOptions small = std::get<InvertedResidualOptions>(backbone);
  small.stem = small.head = 8;
  // Two widths, so that what has a shortcut has one still.
  for (std::size_t stage = 0; stage < small.stages.size(); ++stage) small.stages[stage].out = stage % 2 == 0 ? 4 : 8;
  return small;
}

void initialize_backbone(const ConvolutionalBackbone& backbone, FeatureMaps& network, std::uint64_t seed) {
  network.apply(BackboneInitializer(family_of(backbone), seed), "backbone");
}

}  // namespace stages
