#include "stages/few_shot/episode_backbone.h"

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/model/backbone.h"
#include "stages/model/resnet_weights.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

using runner::ConfigReader;
using runner::ErrorCode;
using runner::StageError;

enum class EpisodeBackboneKind { kConv, kResNet };

ConvNetworkOptions read_conv(ConfigReader& reader) {
  ConvNetworkOptions options;
  reader.read("blocks", options.blocks);
  reader.read("channels", options.channels);
  return options;
}

ResNetOptions read_resnet(ConfigReader& reader, std::optional<std::string>& weights) {
  ResNetOptions options;
  reader.read("depth", options.depth);
  options.stem =
      runner::choice<ResNetStem>(reader, "stem", {{"imagenet", ResNetStem::kImageNet}, {"feti", ResNetStem::kFeti}});
  reader.read("weights", weights);
  if (!weights) return options;
  try {
    find_weights(*weights);
  } catch (const StageError& error) {
    reader.fail("weights", error.code, error.what(), error.help);
  }
  return options;
}

/// A frozen network collects nothing.
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
  return std::visit([](const auto& options) { return options.statistics == BatchNormStatistics::kFixed; }, network);
}

std::string EpisodeBackbone::name() const {
  if (const auto* conv = std::get_if<ConvNetworkOptions>(&network))
    return "conv of " + std::to_string(conv->blocks) + " blocks";
  return "ResNet-" + std::to_string(std::get<ResNetOptions>(network).depth);
}

EpisodeBackbone read_episode_backbone(ConfigReader& parent) {
  if (refuse_backbone(parent, {"clip_vision", "vit"}, "gives no maps of features, which this model takes",
                      "set the backbone's kind to conv or resnet"))
    return {};
  ConfigReader& reader = parent.section("backbone");
  EpisodeBackbone backbone;
  backbone.pointer = reader.pointer();
  const auto kind = runner::choice<EpisodeBackboneKind>(
      reader, "kind", {{"conv", EpisodeBackboneKind::kConv}, {"resnet", EpisodeBackboneKind::kResNet}});
  reader.read("trainable", backbone.is_trainable);
  const bool is_by_batch = runner::choice<bool>(reader, "batch_norm", {{"running", false}, {"batch", true}});
  const BatchNormStatistics statistics = statistics_of(is_by_batch, backbone.is_trainable);
  if (kind == EpisodeBackboneKind::kConv) backbone.network = read_conv(reader);
  else {
    backbone.network = read_resnet(reader, backbone.weights);
    reader.read("weights_entry", backbone.weights_entry);
  }
  std::visit([&](auto& options) { options.statistics = statistics; }, backbone.network);
  return backbone;
}

MapShape fitting_map(const EpisodeBackbone& backbone, const FeatureMaps& network, std::int64_t height,
                     std::int64_t width) {
  if (const auto shape = network.shape(height, width)) return *shape;
  std::int64_t least = 1;
  while (!network.shape(least, least)) ++least;
  throw StageError(ErrorCode::kOptionConflict, "images of " + std::to_string(height) + " x " + std::to_string(width) +
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
  throw StageError(ErrorCode::kDamagedWeights,
                   "the weights '" + *backbone.weights + "' do not fit " + backbone.name() + ": " + report.misfits())
      .at("/weights")
      .in_stage(backbone.pointer)
      .with_help(is_other_stem ? "set 'stem' to that of the weights: imagenet begins with 7 x 7 pixels, feti with 5 x 5"
                               : "give weights of this depth, or the backbone the depth of the weights: what is "
                                 "missing would be random");
}

}  // namespace stages
