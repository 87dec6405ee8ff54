#pragma once

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// The options of model.clip that make the CLIP of both towers which a config.json of transformers describes: the sizes
/// of its towers, its activation and its context. Throws std::invalid_argument, in half a sentence, for another model
/// and for what this program cannot compute: "it describes a 'vit', …".
nlohmann::ordered_json clip_options(const nlohmann::json& config);

}  // namespace runner
