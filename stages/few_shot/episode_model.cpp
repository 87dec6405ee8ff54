#include "stages/few_shot/episode_model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/few_shot/model_few_shot_transformer.h"
#include "stages/model/backbone.h"
#include "stages/model/backbone_options.h"
#include "stages/model/convolution_layers.h"
#include "stages/model/initializer.h"
#include "stages/model/layers.h"
#include "stages/model/resnet.h"
#include "stages/numerics/sharded_build.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

using runner::ConfigReader;
using runner::ErrorCode;
using runner::StageError;

enum class EpisodeBackboneKind { kConv, kResNet };

/// Returns the statistics for a backbone's norms. A frozen backbone collects none.
BatchNormStatistics statistics_of(bool is_by_batch, bool is_trainable) {
  if (is_by_batch) return BatchNormStatistics::kOfBatch;
  return is_trainable ? BatchNormStatistics::kCollected : BatchNormStatistics::kFixed;
}

}  // namespace

std::shared_ptr<FeatureMaps> EpisodeBackbone::make(const at::TensorOptions& options) const {
  if (const auto* conv = std::get_if<ConvNetworkOptions>(&network))
    return std::make_shared<ConvNetwork>(*conv, options);
  return std::make_shared<ResNet>(std::get<ResNetOptions>(network), options);
}

bool EpisodeBackbone::is_fixed() const {
  return std::visit(
      [](const auto& options) { return options.statistics == BatchNormStatistics::kFixed; },
      network);
}

std::string EpisodeBackbone::name() const {
  if (const auto* conv = std::get_if<ConvNetworkOptions>(&network))
    return "conv of " + std::to_string(conv->blocks) + " blocks";
  return "ResNet-" + std::to_string(std::get<ResNetOptions>(network).depth);
}

EpisodeBackbone read_episode_backbone(ConfigReader& parent) {
  if (refuse_backbone(parent, {"clip_vision", "vit", "dinov2"},
                      "computes no feature maps, which this model needs",
                      "set the backbone's kind to conv or resnet"))
    return {};
  ConfigReader& reader = parent.section("backbone");
  EpisodeBackbone backbone;
  backbone.pointer = reader.pointer();
  const auto kind = runner::choice<EpisodeBackboneKind>(
      reader, "kind",
      {{"conv", EpisodeBackboneKind::kConv}, {"resnet", EpisodeBackboneKind::kResNet}});
  reader.read("trainable", backbone.is_trainable);
  const bool is_by_batch =
      runner::choice<bool>(reader, "batch_norm", {{"running", false}, {"batch", true}});
  const BatchNormStatistics statistics = statistics_of(is_by_batch, backbone.is_trainable);
  if (kind == EpisodeBackboneKind::kConv) backbone.network = read_conv_network(reader);
  else backbone.network = read_resnet(reader, backbone.weights, backbone.weights_entry);
  std::visit([&](auto& options) { options.statistics = statistics; }, backbone.network);
  return backbone;
}

MapShape fitting_map(const EpisodeBackbone& backbone, const FeatureMaps& network,
                     std::int64_t height, std::int64_t width) {
  if (const auto shape = network.shape(height, width)) return *shape;
  std::int64_t least = 1;
  while (!network.shape(least, least)) ++least;
  throw StageError(ErrorCode::kOptionConflict,
                   "images of " + std::to_string(height) + " x " + std::to_string(width) +
                       " pixels are too small for this backbone, which pools them")
      .in_stage(backbone.pointer)
      .with_help("set the data stage's image_size to " + std::to_string(least) + " or more");
}

std::unique_ptr<ResNetPlaces> weight_places(const EpisodeBackbone& backbone, FeatureMaps& network,
                                            const SavedWeights& saved) {
  auto places = [&] {
    try {
      return std::make_unique<ResNetPlaces>(dynamic_cast<ResNet&>(network), saved.tensors);
    } catch (const StageError& error) {
      throw StageError(error.code, "'" + *backbone.weights + "': " + error.what())
          .at("/weights")
          .in_stage(backbone.pointer)
          .with_help(error.help);
    }
  }();
  const ResNetWeightsReport& report = places->report();
  if (report.fits()) return places;
  const bool is_other_stem = report.missing.empty() && report.wrong_shape.size() == 1;
  throw StageError(ErrorCode::kDamagedWeights, "the weights '" + *backbone.weights +
                                                   "' do not match " + backbone.name() + ": " +
                                                   report.misfits())
      .at("/weights")
      .in_stage(backbone.pointer)
      .with_help(
          is_other_stem
              ? "set 'stem' to the weights' stem: imagenet begins with a 7 x 7 convolution, feti "
                "with 5 x 5"
              : "use weights with this depth, or set 'depth' to the weights' depth: missing "
                "weights would be random");
}

namespace {

using runner::StageError;

EpisodeNetwork& as_episode_network(torch::nn::Module& network) {
  auto* episodic = dynamic_cast<EpisodeNetwork*>(&network);
  if (!episodic) throw std::logic_error("not a network made by EpisodeModel::build()");
  return *episodic;
}

std::shared_ptr<EpisodeHead> make_head(const EpisodeModelConfig& config,
                                       const EpisodeImages& episode, const MapShape& map,
                                       const at::TensorOptions& options) {
  if (const auto* few_shot = std::get_if<FewShotHeadOptions>(&config.head))
    return std::make_shared<FewShotHead>(*few_shot, episode, map, options);
  return std::make_shared<CrossHead>(std::get<CrossHeadOptions>(config.head), map, options);
}

std::string map_line(const MapShape& map) {
  return "features: " + std::to_string(map.channels) + " x " + std::to_string(map.height) + " x " +
         std::to_string(map.width) + ", " + std::to_string(map.features()) + " for each image";
}

/// Reduces the channels to a few and keeps the number of layers. Returns the matching image size.
std::int64_t shrink_backbone(EpisodeBackbone& backbone) {
  constexpr std::int64_t kChannels = 4, kFirstChannels = 2, kSmallImage = 16,
                         kSmallImageOfResNet = 32;
  backbone.weights.reset();
  if (auto* conv = std::get_if<ConvNetworkOptions>(&backbone.network)) {
    conv->channels = kChannels;
    return kSmallImage;
  }
  auto& resnet = std::get<ResNetOptions>(backbone.network);
  resnet.width = kFirstChannels;
  resnet.pooled_size = 1;
  return kSmallImageOfResNet;
}

void shrink_head(FewShotHeadOptions& head) {
  head.heads = std::min<std::int64_t>(head.heads, 2);
  head.head_width = 3;
  head.mlp_width = 5;
  head.score.width = 4;
}

void shrink_head(CrossHeadOptions& head) { head.width = 4; }

/// Returns data with the same number of supports in an episode, a few queries, small images, and
/// feature maps of shape `map`.
DatasetDescription shrunken_episodes(DatasetDescription data, const EpisodeImages& episode,
                                     std::int64_t image_size, const MapShape& map) {
  if (data.source)
    data.source = std::make_shared<DatasetDescription>(
        shrunken_episodes(*data.source, episode, image_size, map));
  const std::int64_t queries = std::min(episode.queries, episode.ways),
                     images = episode.supports() + queries;
  for (TensorSpec& tensor : data.tensors) {
    if (tensor.name == "image") tensor.shape = {images, 3, image_size, image_size};
    if (tensor.name == "features") tensor.shape = {images, map.channels, map.height, map.width};
    if (tensor.name == "label") tensor.shape = {queries};
  }
  // Random labels are below the number of classes. In an episode, that is the number of ways.
  const auto ways = static_cast<std::size_t>(episode.ways);
  if (data.classes.size() > ways) data.classes.resize(ways);
  return data;
}

}  // namespace

std::shared_ptr<EpisodeNetwork> EpisodeModel::make(const DatasetDescription& data,
                                                   at::Device device) const {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const EpisodeBackbone& backbone = config_.backbone;
  const EpisodeImages episode = fitting_episode(data, config_.pointer);
  const auto maps = backbone.make(options);
  const MapShape map = fitting_map(backbone, *maps, episode.height, episode.width);
  auto network = std::make_shared<EpisodeNetwork>(maps, make_head(config_, episode, map, options));
  network->notes.push_back(map_line(map));
  if (!backbone.is_trainable)
    network->freeze_backbone(saved_ ? "sha256 " + saved_->sha256
                                    : "random, seed " + std::to_string(base_seed_));
  return network;
}

std::shared_ptr<FeatureMaps> EpisodeModel::make_backbone(const DatasetDescription& images,
                                                         at::Device device) const {
  const auto image = std::ranges::find(images.tensors, "image", &TensorSpec::name);
  if (image == images.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(runner::ErrorCode::kOptionConflict,
                     "the data has no color images to compute features from")
        .in_stage(config_.pointer)
        .with_help("connect the stage that computes the features to a data stage with such images");
  }
  auto backbone = config_.backbone.make(at::TensorOptions(at::kFloat).device(device));
  fitting_map(config_.backbone, *backbone, image->shape[1], image->shape[2]);
  for (at::Tensor& parameter : backbone->parameters()) parameter.requires_grad_(false);
  return backbone;
}

std::string EpisodeModel::fill_backbone(FeatureMaps& network, std::uint64_t seed) const {
  const EpisodeBackbone& backbone = config_.backbone;
  if (!saved_) {
    initialize_backbone(network, backbone.is_trainable ? seed : base_seed_);
    return backbone.is_trainable
               ? ""
               : "the backbone has random weights and is not trained: its features are random";
  }
  const auto places = weight_places(backbone, network, *saved_);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*backbone.weights, saved_->sha256, places->sink(), backbone.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at("/weights")
        .in_stage(backbone.pointer)
        .with_help(error.help);
  }
  const std::int64_t depth = std::get<ResNetOptions>(backbone.network).depth;
  return "'" + *backbone.weights + "': " + saved_->choice() + places->report().text(depth);
}

void EpisodeModel::check_weights() const {
  if (!saved_) return;
  const auto network = config_.backbone.make(at::TensorOptions(at::kFloat).device(at::kMeta));
  weight_places(config_.backbone, *network, *saved_);
}

std::shared_ptr<torch::nn::Module> EpisodeModel::build(const DatasetDescription& data,
                                                       std::uint64_t seed) const {
  auto network = make(data, at::kCPU);
  allocate_own_weights(*network);
  initialize_head(*network, seed);
  if (std::string line = fill_backbone(network->backbone(), seed); !line.empty())
    network->notes.push_back(line);
  return network;
}

std::shared_ptr<torch::nn::Module> EpisodeModel::outline(const DatasetDescription& data) const {
  auto network = make(data, at::kMeta);
  allocate_own_weights(*network);
  return network;
}

NamedTensors EpisodeModel::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  return as_episode_network(network).forward(inputs);
}

std::shared_ptr<torch::nn::Module> EpisodeModel::build_frozen(
    const DatasetDescription& images) const {
  const auto backbone = make_backbone(images, at::kCPU);
  fill_backbone(*backbone, base_seed_);
  return backbone;
}

std::shared_ptr<torch::nn::Module> EpisodeModel::outline_frozen(
    const DatasetDescription& images) const {
  return make_backbone(images, at::kMeta);
}

NamedTensors EpisodeModel::frozen_features(torch::nn::Module& network,
                                           const NamedTensors& inputs) const {
  const torch::NoGradGuard no_graph;
  const auto& backbone = dynamic_cast<const FeatureMaps&>(network);
  const OwnPrecision own(backbone);
  return {{"features", backbone.forward(own(inputs.at("image")))}};
}

Shrunken EpisodeModel::shrunken(const DatasetDescription& data) const {
  const EpisodeImages episode = fitting_episode(source_of(data), config_.pointer);
  EpisodeModelConfig config = config_;
  const std::int64_t image_size = shrink_backbone(config.backbone);
  std::visit([](auto& head) { shrink_head(head); }, config.head);
  const auto backbone = config.backbone.make(at::TensorOptions(at::kFloat).device(at::kMeta));
  const MapShape map = fitting_map(config.backbone, *backbone, image_size, image_size);
  return {std::make_shared<EpisodeModel>(std::move(config), nullptr, base_seed_),
          shrunken_episodes(data, episode, image_size, map)};
}

std::vector<std::string> EpisodeModel::notes(const torch::nn::Module& network) const {
  const auto* episodic = dynamic_cast<const EpisodeNetwork*>(&network);
  return episodic ? episodic->notes : std::vector<std::string>();
}

namespace {

constexpr Distribution kZeros = {Distribution::Kind::kZero}, kOnes = {Distribution::Kind::kOne};

enum class ConvolutionRule { kUniform, kNormal };

/// Returns torch's default initialization for layers with `inputs` inputs.
Distribution uniform_of_inputs(std::int64_t inputs) {
  return {Distribution::Kind::kUniform, 1 / std::sqrt(static_cast<double>(inputs))};
}

/// Initializes a module's own weights; `path` is the module's path.
class LayerInitializer {
 public:
  LayerInitializer(ConvolutionRule rule, std::uint64_t seed) : rule_(rule), seed_(seed) {}

  void operator()(const std::string& path, torch::nn::Module& module) const {
    const auto draw = [&](const at::Tensor& weight, const char* name,
                          const Distribution& distribution) {
      if (weight.defined()) draw_weight(weight, distribution, path + "." + name, seed_);
    };
    if (const auto* linear = module.as<Linear>()) {
      const Distribution uniform = uniform_of_inputs(linear->weight.size(1));
      draw(linear->weight, "weight", uniform);
      draw(linear->bias, "bias", uniform);
    } else if (const auto* convolution = module.as<Convolution>()) {
      const Distribution uniform =
          uniform_of_inputs(convolution->weight.numel() / convolution->weight.size(0));
      draw(convolution->weight, "weight",
           rule_ == ConvolutionRule::kUniform ? uniform : normal_of(*convolution));
      draw(convolution->bias, "bias", uniform);
    } else if (const auto* layer_norm = module.as<LayerNorm>()) {
      draw(layer_norm->weight, "weight", kOnes);
      draw(layer_norm->bias, "bias", kZeros);
    } else if (const auto* batch_norm = module.as<BatchNorm>()) {
      draw(batch_norm->weight, "weight", kOnes);
      draw(batch_norm->bias, "bias", kZeros);
    } else if (const auto* head = module.as<FewShotHead>()) {
      draw(head->prototype_weight, "prototype_weight", kOnes);
    } else if (const auto* score = module.as<PairScore>(); score && score->direction.defined()) {
      draw(score->direction, "direction", uniform_of_inputs(score->direction.size(1)));
      const torch::NoGradGuard no_graph;
      score->length.copy_(score->direction.norm(2, {1}, /*keepdim=*/true));
    }
  }

 private:
  static Distribution normal_of(const Convolution& convolution) {
    const at::Tensor& weight = convolution.weight;
    const auto outputs = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
    return {Distribution::Kind::kNormal, std::sqrt(2 / outputs)};
  }

  const ConvolutionRule rule_;
  const std::uint64_t seed_;
};

}  // namespace

void initialize_head(EpisodeNetwork& network, std::uint64_t seed) {
  network.head().apply(LayerInitializer(ConvolutionRule::kUniform, seed), "head");
}

void initialize_backbone(FeatureMaps& backbone, std::uint64_t seed) {
  backbone.apply(LayerInitializer(ConvolutionRule::kNormal, seed), "backbone");
}

namespace {

using runner::StageError;

class EpisodeModelStage : public runner::Stage {
 public:
  explicit EpisodeModelStage(EpisodeModelConfig config) : config_(std::move(config)) {}

  std::string fingerprint() const override {
    if (!config_.backbone.weights) return "";
    if (!sha256_) sha256_ = weights_sha256(*config_.backbone.weights);
    return *sha256_;
  }
  /// True if a frozen backbone has random weights, which depend on the seed.
  bool uses_seed() const override {
    return !config_.backbone.weights && !config_.backbone.is_trainable;
  }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    auto model = std::make_shared<EpisodeModel>(config_, shapes_of_weights(), context.node().seed);
    model->check_weights();
    return {{"model", std::move(model)}};
  }

 private:
  /// Returns the shapes and the digest of the saved weights; null if there are none.
  std::shared_ptr<const SavedWeights> shapes_of_weights() const {
    const EpisodeBackbone& backbone = config_.backbone;
    if (!backbone.weights) return nullptr;
    try {
      auto saved = std::make_shared<SavedWeights>(
          read_saved_weights(*backbone.weights, WeightContents::kShapes, backbone.weights_entry));
      saved->sha256 = fingerprint();
      return saved;
    } catch (const StageError& error) {
      throw StageError(error.code, error.what())
          .at("/weights")
          .in_stage(backbone.pointer)
          .with_help(error.help);
    }
  }

  const EpisodeModelConfig config_;
  mutable std::optional<std::string> sha256_;  // SHA-256 of the weights, computed once
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> episode_model_stage(runner::ConfigReader& reader,
                                                                   EpisodeModelConfig config) {
  config.pointer = reader.pointer();
  std::visit([&](auto& head) { head.pointer = reader.pointer(); }, config.head);
  config.backbone = read_episode_backbone(reader);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<EpisodeModelStage>(std::move(config)));
}

}  // namespace stages
