#include "stages/few_shot/episode_network.h"

#include <optional>
#include <stdexcept>

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/precision.h"

namespace stages {
namespace {

constexpr std::string_view kBackbonePrefix = "backbone.";

}  // namespace

at::Tensor directions(const at::Tensor& x) {
  const ScopedPrecision full(Precision::kFp32, x.device());
  const bool is_half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  const at::Tensor wide = is_half ? x.to(at::kFloat) : x;
  const at::Tensor length = wide.norm(2, {-1}, /*keepdim=*/true);
  return wide / length.masked_fill(length == 0, 1);
}

EpisodeNetwork::EpisodeNetwork(std::shared_ptr<FeatureMaps> backbone, std::shared_ptr<EpisodeHead> head)
    : backbone_(register_module("backbone", std::move(backbone))), head_(register_module("head", std::move(head))) {}

void EpisodeNetwork::freeze_backbone(std::string base) {
  is_backbone_frozen_ = true;
  base_ = std::move(base);
  for (at::Tensor& parameter : backbone_->parameters()) parameter.requires_grad_(false);
}

bool EpisodeNetwork::is_base(std::string_view weight) const {
  return is_backbone_frozen_ && weight.starts_with(kBackbonePrefix);
}

at::Tensor EpisodeNetwork::maps_of(const at::Tensor& images) const {
  std::optional<torch::NoGradGuard> no_graph;
  if (is_backbone_frozen_) no_graph.emplace();
  return backbone_->forward(images);
}

NamedTensors EpisodeNetwork::forward(const NamedTensors& inputs) const {
  const OwnPrecision own(*this);
  const bool has_maps = inputs.contains("features");
  const at::Tensor images = own(inputs.at(has_maps ? "features" : "image"));
  const std::int64_t ways = inputs.at("support").size(1), shots = inputs.at("support").size(2);
  const std::int64_t supports = ways * shots, queries = images.size(1) - supports;
  if (queries < 1) throw std::invalid_argument("an episode without queries");
  std::vector<at::Tensor> logits, support_features;
  for (std::int64_t episode = 0; episode < images.size(0); ++episode) {
    const at::Tensor maps = has_maps ? images[episode] : maps_of(images[episode]);
    // Their gradients are joined, where those of slices would be padded and added.
    const std::vector<at::Tensor> parts = maps.flatten(1).split_with_sizes({supports, queries});
    const EpisodeFeatures features{.supports = parts[0].view({ways, shots, -1}),
                                   .queries = parts[1],
                                   .map = {maps.size(1), maps.size(2), maps.size(3)}};
    logits.push_back(head_->forward(features));
    support_features.push_back(features.supports);
  }
  return {{"logits", torch::stack(logits)}, {"support_features", torch::stack(support_features)}};
}

}  // namespace stages
