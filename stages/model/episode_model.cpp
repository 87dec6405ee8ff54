#include "stages/model/episode_model.h"

#include <algorithm>
#include <stdexcept>

#include <torch/torch.h>

#include "runner/stage/stage.h"
#include "stages/model/episode_initializer.h"
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

/// Episodes of as many supports, a few queries and small images.
DatasetDescription shrunken_episodes(DatasetDescription data, const EpisodeImages& episode, std::int64_t image_size) {
  const std::int64_t queries = std::min(episode.queries, episode.ways);
  for (TensorSpec& tensor : data.tensors) {
    if (tensor.name == "image") tensor.shape = {episode.supports() + queries, 3, image_size, image_size};
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

void EpisodeModel::fill_backbone(EpisodeNetwork& network, std::uint64_t seed) const {
  const EpisodeBackbone& backbone = config_.backbone;
  if (!saved_) {
    initialize_backbone(network, backbone.is_trainable ? seed : base_seed_);
    if (!backbone.is_trainable)
      network.notes.push_back("the backbone has random weights and is not trained: its features are those of chance");
    return;
  }
  const auto places = weight_places(backbone, network.backbone(), *saved_);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*backbone.weights, saved_->sha256, places->sink());
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/weights").in_stage(backbone.pointer).with_help(error.help);
  }
  const std::int64_t depth = std::get<ResNetOptions>(backbone.network).depth;
  network.notes.push_back("'" + *backbone.weights + "': " + places->report().text(depth));
}

void EpisodeModel::check_weights() const {
  if (!saved_) return;
  const auto network = config_.backbone.make(at::TensorOptions(at::kFloat).device(at::kMeta));
  weight_places(config_.backbone, *network, *saved_);
}

std::shared_ptr<torch::nn::Module> EpisodeModel::build(const DatasetDescription& data, std::uint64_t seed) const {
  auto network = make(data, at::kCPU);
  initialize_head(*network, seed);
  fill_backbone(*network, seed);
  return network;
}

std::shared_ptr<torch::nn::Module> EpisodeModel::outline(const DatasetDescription& data) const {
  return make(data, at::kMeta);
}

NamedTensors EpisodeModel::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  return as_episode_network(network).forward(inputs);
}

Shrunken EpisodeModel::shrunken(const DatasetDescription& data) const {
  const EpisodeImages episode = fitting_episode(data, config_.pointer);
  EpisodeModelConfig config = config_;
  const std::int64_t image_size = shrink_backbone(config.backbone);
  std::visit([](auto& head) { shrink_head(head); }, config.head);
  return {std::make_shared<EpisodeModel>(std::move(config), nullptr, base_seed_),
          shrunken_episodes(data, episode, image_size)};
}

std::vector<std::string> EpisodeModel::notes(const torch::nn::Module& network) const {
  const auto* episodic = dynamic_cast<const EpisodeNetwork*>(&network);
  return episodic ? episodic->notes : std::vector<std::string>();
}

}  // namespace stages
