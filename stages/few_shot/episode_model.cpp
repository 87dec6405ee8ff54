#include "stages/few_shot/episode_model.h"

#include <algorithm>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/few_shot/episode_initializer.h"
#include "stages/model/resnet_weights.h"

namespace stages {
namespace {

using runner::StageError;

EpisodeNetwork& as_episode_network(torch::nn::Module& network) {
  auto* episodic = dynamic_cast<EpisodeNetwork*>(&network);
  if (!episodic) throw std::logic_error("not a network that EpisodeModel::build() has made");
  return *episodic;
}

std::shared_ptr<EpisodeHead> make_head(const EpisodeModelConfig& config, const EpisodeImages& episode,
                                       const MapShape& map, const at::TensorOptions& options) {
  if (const auto* few_shot = std::get_if<FewShotHeadOptions>(&config.head))
    return std::make_shared<FewShotHead>(*few_shot, episode, map, options);
  return std::make_shared<CrossHead>(std::get<CrossHeadOptions>(config.head), map, options);
}

std::string map_line(const MapShape& map) {
  return "features: " + std::to_string(map.channels) + " x " + std::to_string(map.height) + " x " +
         std::to_string(map.width) + ", " + std::to_string(map.features()) + " for each image";
}

/// As few channels as may be, of as many layers; returns the image size that goes with them.
std::int64_t shrink_backbone(EpisodeBackbone& backbone) {
  constexpr std::int64_t kChannels = 4, kFirstChannels = 2, kSmallImage = 16, kSmallImageOfResNet = 32;
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

/// Episodes of as many supports, a few queries and small images, whose features are such maps.
DatasetDescription shrunken_episodes(DatasetDescription data, const EpisodeImages& episode, std::int64_t image_size,
                                     const MapShape& map) {
  if (data.source)
    data.source = std::make_shared<DatasetDescription>(shrunken_episodes(*data.source, episode, image_size, map));
  const std::int64_t queries = std::min(episode.queries, episode.ways), images = episode.supports() + queries;
  for (TensorSpec& tensor : data.tensors) {
    if (tensor.name == "image") tensor.shape = {images, 3, image_size, image_size};
    if (tensor.name == "features") tensor.shape = {images, map.channels, map.height, map.width};
    if (tensor.name == "label") tensor.shape = {queries};
  }
  // Random labels are drawn below the number of classes, and those of an episode are its ways.
  const auto ways = static_cast<std::size_t>(episode.ways);
  if (data.classes.size() > ways) data.classes.resize(ways);
  return data;
}

}  // namespace

std::shared_ptr<EpisodeNetwork> EpisodeModel::make(const DatasetDescription& data, at::Device device) const {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const EpisodeBackbone& backbone = config_.backbone;
  const EpisodeImages episode = fitting_episode(data, config_.pointer);
  const auto maps = backbone.make(options);
  const MapShape map = fitting_map(backbone, *maps, episode.height, episode.width);
  auto network = std::make_shared<EpisodeNetwork>(maps, make_head(config_, episode, map, options));
  network->notes.push_back(map_line(map));
  if (!backbone.is_trainable)
    network->freeze_backbone(saved_ ? "sha256 " + saved_->sha256 : "random, seed " + std::to_string(base_seed_));
  return network;
}

std::shared_ptr<FeatureMaps> EpisodeModel::make_backbone(const DatasetDescription& images, at::Device device) const {
  const auto image = std::ranges::find(images.tensors, "image", &TensorSpec::name);
  if (image == images.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(runner::ErrorCode::kOptionConflict, "the data gives no colour images, whose features are wanted")
        .in_stage(config_.pointer)
        .with_help("wire the stage that computes the features to a data stage of images");
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
               : "the backbone has random weights and is not trained: its features are those of chance";
  }
  const auto places = weight_places(backbone, network, *saved_);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*backbone.weights, saved_->sha256, places->sink(), backbone.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/weights").in_stage(backbone.pointer).with_help(error.help);
  }
  const std::int64_t depth = std::get<ResNetOptions>(backbone.network).depth;
  return "'" + *backbone.weights + "': " + saved_->choice() + places->report().text(depth);
}

void EpisodeModel::check_weights() const {
  if (!saved_) return;
  const auto network = config_.backbone.make(at::TensorOptions(at::kFloat).device(at::kMeta));
  weight_places(config_.backbone, *network, *saved_);
}

std::shared_ptr<torch::nn::Module> EpisodeModel::build(const DatasetDescription& data, std::uint64_t seed) const {
  auto network = make(data, at::kCPU);
  initialize_head(*network, seed);
  if (std::string line = fill_backbone(network->backbone(), seed); !line.empty()) network->notes.push_back(line);
  return network;
}

std::shared_ptr<torch::nn::Module> EpisodeModel::outline(const DatasetDescription& data) const {
  return make(data, at::kMeta);
}

NamedTensors EpisodeModel::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  return as_episode_network(network).forward(inputs);
}

std::shared_ptr<torch::nn::Module> EpisodeModel::build_frozen(const DatasetDescription& images) const {
  const auto backbone = make_backbone(images, at::kCPU);
  fill_backbone(*backbone, base_seed_);
  return backbone;
}

std::shared_ptr<torch::nn::Module> EpisodeModel::outline_frozen(const DatasetDescription& images) const {
  return make_backbone(images, at::kMeta);
}

NamedTensors EpisodeModel::frozen_features(torch::nn::Module& network, const NamedTensors& inputs) const {
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

}  // namespace stages
