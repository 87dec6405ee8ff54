#include "stages/model/backbone_weights.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// What `read` finds by the backbone's reference.
template <typename Read>
auto read_by(const BackboneConfig& backbone, Read read) {
  try {
    return read(*backbone.weights);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/weights").in_stage(backbone.pointer).with_help(error.help);
  }
}

}  // namespace

SavedWeights shapes_of_weights(const BackboneConfig& backbone) {
  return read_by(backbone, [&](const std::string& reference) {
    return read_saved_weights(reference, WeightContents::kShapes, backbone.weights_entry);
  });
}

std::string sha256_of_weights(const BackboneConfig& backbone) { return read_by(backbone, weights_sha256); }

std::optional<runner::PretrainedConfig> config_of_weights(const std::optional<nlohmann::json>& config,
                                                          const BackboneConfig& backbone) {
  if (!config) return std::nullopt;
  try {
    return runner::pretrained_config(*config);
  } catch (const std::invalid_argument& error) {
    throw StageError(ErrorCode::kOptionConflict, "the config.json beside '" + *backbone.weights +
                                                     "' describes an unsupported model: " + error.what())
        .at("/weights")
        .in_stage(backbone.pointer)
        .with_help("give weights of a CLIP or ViT");
  }
}

}  // namespace stages
