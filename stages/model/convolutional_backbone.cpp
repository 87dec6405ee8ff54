#include "stages/model/convolutional_backbone.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/model/convolution_layers.h"
#include "stages/model/initializer.h"

namespace stages {
namespace {

constexpr BottleneckOptions kSeResNeXt50 = {
    .cardinality = 32, .base_width = 4, .squeeze_ratio = 16};

/// Families of networks; timm initializes each family's weights by a different rule.
enum class ConvolutionFamily { kResNet, kDenseNet, kEfficientNet };

ConvolutionFamily family_of(const ConvolutionalBackbone& backbone) {
  if (std::holds_alternative<DenseOptions>(backbone)) return ConvolutionFamily::kDenseNet;
  if (std::holds_alternative<InvertedResidualOptions>(backbone))
    return ConvolutionFamily::kEfficientNet;
  return ConvolutionFamily::kResNet;
}

/// Returns the distribution of He et al. (2015) for ReLU, by fan-out, or by fan-in for a DenseNet.
/// Only EfficientNet's rule considers groups.
Distribution kaiming(const at::Tensor& weight, ConvolutionFamily family) {
  const std::int64_t area = weight.size(2) * weight.size(3);
  std::int64_t fan = weight.size(0) * area;
  if (family == ConvolutionFamily::kDenseNet) fan = weight.size(1) * area;
  // The only convolutions with groups are depthwise: each output channel reads one input channel.
  if (family == ConvolutionFamily::kEfficientNet && weight.size(1) == 1) fan = area;
  return {Distribution::Kind::kNormal, std::sqrt(2 / static_cast<double>(fan))};
}

class BackboneInitializer {
 public:
  BackboneInitializer(ConvolutionFamily family, std::uint64_t seed)
      : family_(family), seed_(seed) {}

  void operator()(const std::string& path, torch::nn::Module& module) const {
    if (const auto* convolution = module.as<Convolution>()) {
      draw(convolution->weight, path + ".weight", kaiming(convolution->weight, family_));
      if (convolution->bias.defined())
        draw(convolution->bias, path + ".bias", bias_rule(*convolution));
    } else if (const auto* norm = module.as<BatchNorm>()) {
      // Before training, a ResNet block computes only its shortcut.
      const bool ends_branch = family_ == ConvolutionFamily::kResNet && path.ends_with(".bn3");
      draw(norm->weight, path + ".weight",
           {ends_branch ? Distribution::Kind::kZero : Distribution::Kind::kOne});
      draw(norm->bias, path + ".bias", {Distribution::Kind::kZero});
    }
  }

 private:
  void draw(const at::Tensor& weight, const std::string& name,
            const Distribution& distribution) const {
    draw_weight(weight, distribution, name, seed_);
  }
  Distribution bias_rule(const Convolution& convolution) const {
    if (family_ != ConvolutionFamily::kResNet) return {Distribution::Kind::kZero};
    return {Distribution::Kind::kUniform,
            1 / std::sqrt(
                    static_cast<double>(convolution.weight.numel() / convolution.weight.size(0)))};
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

std::shared_ptr<FeatureMaps> make_backbone(const ConvolutionalBackbone& backbone,
                                           const at::TensorOptions& options) {
  if (const auto* bottleneck = std::get_if<BottleneckOptions>(&backbone))
    return std::make_shared<BottleneckNetwork>(*bottleneck, options);
  if (const auto* dense = std::get_if<DenseOptions>(&backbone))
    return std::make_shared<DenseNetwork>(*dense, options);
  if (const auto* resnet = std::get_if<ResNetOptions>(&backbone))
    return std::make_shared<ResNet>(*resnet, options);
  if (const auto* conv = std::get_if<ConvNetworkOptions>(&backbone))
    return std::make_shared<ConvNetwork>(*conv, options);
  return std::make_shared<InvertedResidualNetwork>(std::get<InvertedResidualOptions>(backbone),
                                                   options);
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
  if (const auto* resnet = std::get_if<ResNetOptions>(&backbone)) {
    ResNetOptions small = *resnet;
    small.width = 2;
    small.pooled_size = 1;
    return small;
  }
  if (const auto* conv = std::get_if<ConvNetworkOptions>(&backbone)) {
    ConvNetworkOptions small = *conv;
    small.channels = 4;
    return small;
  }
  InvertedResidualOptions small = std::get<InvertedResidualOptions>(backbone);
  small.stem = small.head = 8;
  // Alternates between two widths, so that the blocks with a shortcut stay the same.
  for (std::size_t stage = 0; stage < small.stages.size(); ++stage)
    small.stages[stage].out = stage % 2 == 0 ? 4 : 8;
  return small;
}

std::optional<ConvolutionalBackbone> with_drop_path(ConvolutionalBackbone backbone,
                                                    double drop_path) {
  const auto set = [drop_path]<typename Options>(Options& options) {
    if constexpr (requires { options.drop_path; }) options.drop_path = drop_path;
    return requires { options.drop_path; };
  };
  if (!std::visit(set, backbone)) return std::nullopt;
  return backbone;
}

void initialize_backbone(const ConvolutionalBackbone& backbone, FeatureMaps& network,
                         std::uint64_t seed) {
  network.apply(BackboneInitializer(family_of(backbone), seed), "backbone");
}

}  // namespace stages
