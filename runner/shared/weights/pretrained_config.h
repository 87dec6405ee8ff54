#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// What config.json next to weights says about their vision tower. nullopt: not given.
struct PretrainedConfig {
  std::optional<std::string> kind;  ///< for model/backbone: "clip_vision" or "vit"
  std::optional<std::int64_t> hidden_size, intermediate_size, num_hidden_layers,
      num_attention_heads, patch_size;
  std::optional<std::int64_t> image_size;  ///< image size that the position embeddings are for
  std::optional<std::int64_t> projection_dim;
  std::optional<std::string> hidden_act;  ///< "gelu" or "quick_gelu"
  std::optional<double> layer_norm_eps;
};

/// Reads the config of a CLIP or ViT from transformers, timm (whose shape follows from the
/// architecture's name and arguments) or open_clip. All members are nullopt for a model with other
/// parts, such as another family. For models that this program cannot compute, throws
/// std::invalid_argument with half a sentence: "its 'hidden_act' is 'relu', …".
PretrainedConfig pretrained_config(const nlohmann::json& config);

/// The options of model.clip for the two-tower CLIP that a config.json of transformers describes:
/// the sizes of its towers, its activation and its context. Throws std::invalid_argument with half
/// a sentence for other models and for what this program cannot compute: "it describes a 'vit', …".
nlohmann::ordered_json clip_options(const nlohmann::json& config);

}  // namespace runner
