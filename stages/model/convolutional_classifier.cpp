#include "stages/model/convolutional_classifier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/model/backbone_weights.h"
#include "stages/model/clip_vision.h"
#include "stages/model/coral_layer.h"
#include "stages/model/initializer.h"

namespace stages {

ClassifierHead::ClassifierHead(const ClassifierHeadOptions& head, std::int64_t features,
                               std::int64_t outputs, const at::TensorOptions& options) {
  int next = 0;
  std::int64_t in = features;
  const auto add = [&](std::int64_t out, bool is_last) {
    Layer layer;
    const double dropout = layers_.empty() ? head.dropout : head.dropout / 2;
    layer.dropout = register_module(std::to_string(next++), std::make_shared<Dropout>(dropout));
    layer.linear = register_module(
        std::to_string(next++),
        classifier_layer(in, out, is_last ? head.ordinal : OrdinalHead::kNone, options));
    ++next;  // ReLU
    if (!is_last) {
      layer.norm = register_module(
          std::to_string(next++),
          std::make_shared<BatchNorm>(out, BatchNormStatistics::kCollected, options));
    }
    layers_.push_back(std::move(layer));
    in = out;
  };
  for (const std::int64_t width : head.widths) add(width, false);
  add(outputs, true);
}

at::Tensor ClassifierHead::forward(const at::Tensor& features) const {
  const OwnPrecision own(*this);
  at::Tensor x = own(features);
  for (const Layer& layer : layers_) {
    x = layer.linear->forward(layer.dropout->forward(x));
    if (layer.norm) x = layer.norm->forward(x.relu_());
  }
  return x;
}

void ClassifierHead::initialize(const std::string& path, std::uint64_t seed) {
  apply(
      [&](const std::string& name, torch::nn::Module& module) {
        if (const auto* linear = module.as<Linear>()) {
          const Distribution uniform = {Distribution::Kind::kUniform,
                                        1 / std::sqrt(static_cast<double>(linear->weight.size(1)))};
          draw_weight(linear->weight, uniform, name + ".weight", seed);
          draw_weight(linear->bias, uniform, name + ".bias", seed);
        } else if (const auto* norm = module.as<BatchNorm>()) {
          draw_weight(norm->weight, {Distribution::Kind::kOne}, name + ".weight", seed);
          draw_weight(norm->bias, {Distribution::Kind::kZero}, name + ".bias", seed);
        }
      },
      path);
}

void ClassifierHead::make_zero() {
  const torch::NoGradGuard no_graph;
  for (at::Tensor& weight : parameters()) weight.zero_();
}

namespace {

constexpr BottleneckOptions kSeResNeXt50 = {
    .cardinality = 32, .base_width = 4, .squeeze_ratio = 16};

/// Families of networks; timm initializes the weights of each family by a different rule.
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
            1 / std::sqrt(static_cast<double>(convolution.weight[0].numel()))};
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
  // Alternates two widths, so that the same blocks have a shortcut.
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

namespace {

using runner::ErrorCode;
using runner::StageError;

ConvolutionalClassifierNetwork& as_convolutional(torch::nn::Module& network) {
  auto* classifier = dynamic_cast<ConvolutionalClassifierNetwork*>(&network);
  if (!classifier) throw std::logic_error("not a network made by ConvolutionalClassifier::build()");
  return *classifier;
}

/// True if `path` is `module` itself or a module in it.
bool is_below(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

/// True if `path` is in one of the frozen modules.
bool is_frozen_by(const std::vector<std::string>& modules, const std::string& path) {
  return std::ranges::any_of(modules,
                             [&](const std::string& module) { return is_below(path, module); });
}

/// Freezes modules: their parameters, and the running statistics of their norms.
void freeze(FeatureMaps& backbone, const std::vector<std::string>& modules) {
  const auto is_frozen = [&](const std::string& path) { return is_frozen_by(modules, path); };
  for (const auto& item : backbone.named_parameters()) {
    if (is_frozen(item.key())) item.value().requires_grad_(false);
  }
  for (const auto& item : backbone.named_modules()) {
    if (auto* norm = item.value()->as<BatchNorm>(); norm && is_frozen(item.key()))
      norm->fix_statistics();
  }
}

/// Throws if the backbone cannot process such images.
void check_images(const ConvolutionalClassifierConfig& config, const FeatureMaps& backbone,
                  const DatasetDescription& data) {
  const auto image = std::ranges::find(data.tensors, "image", &TensorSpec::name);
  if (image == data.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(ErrorCode::kOptionConflict, "the data has no three-channel images")
        .in_stage(config.pointer)
        .with_help(
            "this model classifies color images: connect it to a data stage with such images");
  }
  if (backbone.shape(image->shape[1], image->shape[2])) return;
  std::int64_t least = 1;
  while (!backbone.shape(least, least)) ++least;
  throw StageError(ErrorCode::kOptionConflict, "images of " + std::to_string(image->shape[1]) +
                                                   " x " + std::to_string(image->shape[2]) +
                                                   " pixels are too small for " + config.name +
                                                   ", which pools them")
      .in_stage(config.pointer)
      .with_help("set the data stage's image_size to " + std::to_string(least) + " or more");
}

}  // namespace

void read_drop_path(runner::ConfigReader& reader, ConvolutionalClassifierConfig& config) {
  double drop_path = 0;
  reader.read("drop_path", drop_path);
  if (drop_path == 0) return;
  const std::optional<ConvolutionalBackbone> skipping = with_drop_path(config.backbone, drop_path);
  if (!skipping) {
    reader.fail("drop_path", ErrorCode::kOptionConflict,
                "drop_path skips residual blocks, but " + config.name + " has none",
                "set drop_path: 0, or choose a network with residual blocks");
    return;
  }
  const auto backbone = make_backbone(*skipping, at::TensorOptions(at::kFloat).device(at::kMeta));
  const auto modules = backbone->named_modules();
  const auto is_trained_block = [&](const auto& item) {
    return item.key().ends_with(".drop_path") && !is_frozen_by(config.frozen, item.key());
  };
  if (std::ranges::none_of(modules, is_trained_block)) {
    reader.fail(
        "drop_path", ErrorCode::kOptionConflict,
        "drop_path skips blocks in training, but 'frozen' freezes every block that it skips",
        "set drop_path: 0, or freeze fewer blocks");
  }
  config.backbone = *skipping;
}

bool has_module(const FeatureMaps& backbone, const std::string& path) {
  const auto modules = backbone.named_modules();
  return !path.empty() &&
         std::ranges::any_of(modules, [&](const auto& item) { return item.key() == path; });
}

ConvolutionalClassifierNetwork::ConvolutionalClassifierNetwork(
    const ConvolutionalClassifierConfig& config, std::int64_t outputs,
    const at::TensorOptions& options)
    : backbone_(register_module("backbone", make_backbone(config.backbone, options))) {
  constexpr std::int64_t kAnySize = 224;
  const std::int64_t channels = backbone_->shape(kAnySize, kAnySize)->channels;
  head_ = register_module(
      "classifier", std::make_shared<ClassifierHead>(config.head, channels, outputs, options));
  freeze(*backbone_, config.frozen);
}

at::Tensor ConvolutionalClassifierNetwork::features(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  return backbone_->forward(own(pixels)).mean({2, 3});
}

NamedTensors ConvolutionalClassifierNetwork::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor seen = features(pixels);
  return {{"logits", head_->forward(seen)}, {"features", seen}};
}

std::shared_ptr<ConvolutionalClassifierNetwork> ConvolutionalClassifier::make(
    const DatasetDescription& data, at::Device device) const {
  const std::int64_t outputs = fitting_classes(data, config_.num_classes, config_.pointer);
  ConvolutionalClassifierConfig config = config_;
  config.head.ordinal = data.ordinal;
  auto network = std::make_shared<ConvolutionalClassifierNetwork>(
      config, outputs, at::TensorOptions(at::kFloat).device(device));
  check_images(config_, network->backbone(), data);
  return network;
}

std::shared_ptr<torch::nn::Module> ConvolutionalClassifier::build(const DatasetDescription& data,
                                                                  std::uint64_t seed) const {
  const auto network = make(data, at::kCPU);
  if (config_.head_start == HeadStart::kZero) network->head().make_zero();
  else network->head().initialize("classifier", seed);
  start_coral_biases(*network);
  if (!saved_) {
    initialize_backbone(config_.backbone, network->backbone(), seed);
    return network;
  }
  BackboneWeights places(config_, network->backbone(), *saved_);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*config_.weights, saved_->sha256, places.sink(), config_.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at(config_.weights_option)
        .in_stage(config_.pointer)
        .with_help(error.help);
  }
  network->notes.push_back("'" + *config_.weights + "': " + saved_->choice() + places.text());
  return network;
}

std::shared_ptr<torch::nn::Module> ConvolutionalClassifier::outline(
    const DatasetDescription& data) const {
  return make(data, at::kMeta);
}

void ConvolutionalClassifier::check_weights() const {
  if (!saved_) return;
  const auto backbone =
      make_backbone(config_.backbone, at::TensorOptions(at::kFloat).device(at::kMeta));
  BackboneWeights(config_, *backbone, *saved_);
}

NamedTensors ConvolutionalClassifier::forward(torch::nn::Module& network,
                                              const NamedTensors& inputs) const {
  return as_convolutional(network).forward(inputs.at("image"));
}

Shrunken ConvolutionalClassifier::shrunken(const DatasetDescription& data) const {
  constexpr std::int64_t kSmallImage = 64, kSmallWidth = 8;
  ConvolutionalClassifierConfig config = config_;
  config.backbone = shrunken_backbone(config.backbone);
  config.weights.reset();
  for (std::int64_t& width : config.head.widths) width = std::min(width, kSmallWidth);
  DatasetDescription small = data;
  for (TensorSpec& tensor : small.tensors) {
    if (tensor.name == "image") tensor.shape = {3, kSmallImage, kSmallImage};
  }
  return {std::make_shared<ConvolutionalClassifier>(std::move(config), nullptr), small};
}

std::vector<std::string> ConvolutionalClassifier::notes(const torch::nn::Module& network) const {
  const auto* classifier = dynamic_cast<const ConvolutionalClassifierNetwork*>(&network);
  return classifier ? classifier->notes : std::vector<std::string>();
}

namespace {

using runner::StageError;

class ConvolutionalClassifierStage : public runner::Stage {
 public:
  explicit ConvolutionalClassifierStage(ConvolutionalClassifierConfig config)
      : config_(std::move(config)) {}

  std::string fingerprint() const override {
    if (!config_.weights) return "";
    if (!sha256_) sha256_ = weights_sha256(*config_.weights);
    return *sha256_;
  }
  /// False: random weights are drawn with the training stage's seed.
  bool uses_seed() const override { return false; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    auto model = std::make_shared<ConvolutionalClassifier>(config_, shapes_of_weights());
    model->check_weights();
    return {{"model", std::move(model)}};
  }

 private:
  /// Returns the shapes and the digest of the weights; null if the model starts from random ones.
  std::shared_ptr<const SavedWeights> shapes_of_weights() const {
    if (!config_.weights) return nullptr;
    try {
      auto saved = std::make_shared<SavedWeights>(
          read_saved_weights(*config_.weights, WeightContents::kShapes, config_.weights_entry));
      saved->sha256 = fingerprint();
      return saved;
    } catch (const StageError& error) {
      throw StageError(error.code, error.what())
          .at(config_.weights_option)
          .in_stage(config_.pointer)
          .with_help(error.help);
    }
  }

  const ConvolutionalClassifierConfig config_;
  mutable std::optional<std::string> sha256_;  // of the weights; computed once
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> convolutional_classifier_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config) {
  config.pointer = reader.pointer();
  read_drop_path(reader, config);
  reader.read("weights", config.weights);
  reader.read("weights_entry", config.weights_entry);
  if (config.weights) {
    try {
      find_weights(*config.weights);
    } catch (const StageError& error) {
      reader.fail("weights", error.code, error.what(), error.help);
    }
  }
  runner::read_or_auto(reader, "num_classes", config.num_classes);
  runner::ConfigReader& head = reader.section("head");
  head.read("widths", config.head.widths);
  head.read("dropout", config.head.dropout);
  return convolutional_stage(reader, std::move(config));
}

runner::Result<std::unique_ptr<runner::Stage>> convolutional_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config) {
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(
      std::make_unique<ConvolutionalClassifierStage>(std::move(config)));
}

}  // namespace stages
