#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// What the file config.json beside weights says of their vision tower. nullopt: it says nothing of
/// it.
struct PretrainedConfig {
  std::optional<std::string> kind;  ///< of model/backbone: "clip_vision" or "vit"
  std::optional<std::int64_t> hidden_size, intermediate_size, num_hidden_layers,
      num_attention_heads, patch_size;
  std::optional<std::int64_t> image_size;  ///< that the position embeddings are for
  std::optional<std::int64_t> projection_dim;
  std::optional<std::string> hidden_act;  ///< "gelu" or "quick_gelu"
  std::optional<double> layer_norm_eps;
};

/// Reads the config of a CLIP or ViT of transformers, of timm (where the shape follows from the
/// architecture's name and its arguments) or of open_clip. A model with other parts, such as
/// another family, has none of this. Throws std::invalid_argument, in half a sentence: "its
/// 'hidden_act' is 'relu', …", for what this program cannot compute.
PretrainedConfig pretrained_config(const nlohmann::json& config);

/// The options of model.clip that make the CLIP of both towers which a config.json of transformers
/// describes: the sizes of its towers, its activation and its context. Throws
/// std::invalid_argument, in half a sentence, for another model and for what this program cannot
/// compute: "it describes a 'vit', …".
nlohmann::ordered_json clip_options(const nlohmann::json& config);

}  // namespace runner
