#include "stages/model/backbone_weights.h"

#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/convolutional_classifier.h"
#include "stages/weights/saved_weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;
using BackbonePlaces = std::variant<TimmWeightPlaces, ResNetPlaces>;

[[noreturn]] void refuse(const ConvolutionalClassifierConfig& config, ErrorCode code,
                         const std::string& message, const std::string& help) {
  throw StageError(code, message)
      .at(config.weights_option)
      .in_stage(config.pointer)
      .with_help(help);
}

BackbonePlaces places_in(const ConvolutionalClassifierConfig& config, FeatureMaps& backbone,
                         const SavedWeights& saved) {
  try {
    if (auto* resnet = dynamic_cast<ResNet*>(&backbone))
      return BackbonePlaces(std::in_place_type<ResNetPlaces>, *resnet, saved.tensors);
    return BackbonePlaces(std::in_place_type<TimmWeightPlaces>, backbone, saved.tensors);
  } catch (const StageError& error) {
    refuse(config, error.code, "'" + *config.weights + "': " + error.what(), error.help);
  }
}

void check(const ConvolutionalClassifierConfig& config, const ResNetWeightsReport& report) {
  if (report.fits()) return;
  const bool is_other_stem = report.missing.empty() && report.wrong_shape.size() == 1;
  refuse(
      config, ErrorCode::kDamagedWeights,
      "the weights '" + *config.weights + "' do not match " + config.name + ": " + report.misfits(),
      is_other_stem
          ? "set 'stem' to the weights' stem: imagenet begins with a 7 x 7 convolution, feti "
            "with 5 x 5"
          : "use weights with this depth, or set 'depth' to the weights' depth: missing weights "
            "would be random");
}

void check(const ConvolutionalClassifierConfig& config, const TimmWeightsReport& report) {
  if (report.fits()) return;
  const std::string file = "the weights '" + *config.weights + "' ";
  if (report.has_cadene_names) {
    refuse(config, ErrorCode::kDamagedWeights,
           file +
               "have Cadene's names (layer0, se_module, last_linear), like timm's "
               "legacy_seresnext50_32x4d",
           "use timm's weights for " + config.name + ", or rename these");
  }
  refuse(config, ErrorCode::kDamagedWeights,
         file + "do not match " + config.name + ": " + report.misfits(),
         "use timm's weights for exactly this network: missing weights would be random");
}

}  // namespace

BackboneWeights::BackboneWeights(const ConvolutionalClassifierConfig& config, FeatureMaps& backbone,
                                 const SavedWeights& saved)
    : config_(config), places_(places_in(config, backbone, saved)) {
  std::visit([&](const auto& places) { check(config, places.report()); }, places_);
}

WeightSink BackboneWeights::sink() {
  return std::visit([](auto& places) { return places.sink(); }, places_);
}

std::string BackboneWeights::text() const {
  if (const auto* timm = std::get_if<TimmWeightPlaces>(&places_)) return timm->report().text();
  return std::get<ResNetPlaces>(places_).report().text(
      std::get<ResNetOptions>(config_.backbone).depth);
}

}  // namespace stages
