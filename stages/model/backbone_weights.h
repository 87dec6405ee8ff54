#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "stages/model/backbone.h"
#include "stages/weights/saved_weights.h"

namespace stages {

// What lies where a backbone's `weights` lead, which must be given. All throw runner::StageError, which blames that
// option.

/// Of the weights the shapes alone, without a digest, and the config beside them.
SavedWeights shapes_of_weights(const BackboneConfig& backbone);

/// The digest of all their bytes.
std::string sha256_of_weights(const BackboneConfig& backbone);

/// What the config beside the weights says, where there is one; it describes a CLIP or ViT.
std::optional<runner::PretrainedConfig> config_of_weights(const std::optional<nlohmann::json>& config,
                                                          const BackboneConfig& backbone);

}  // namespace stages
