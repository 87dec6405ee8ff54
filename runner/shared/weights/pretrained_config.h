#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace runner {

/// The description of a vision tower, from the config.json next to its weights. Members that the
/// file does not specify are nullopt.
struct PretrainedConfig {
  std::optional<std::string> kind;  ///< "clip_vision", "vit" or "dinov2", as for model/backbone
  std::optional<std::int64_t> hidden_size, intermediate_size, num_hidden_layers,
      num_attention_heads, patch_size;
  std::optional<std::int64_t> image_size;  ///< image size for the position embeddings
  std::optional<std::int64_t> projection_dim;
  std::optional<std::int64_t> register_tokens;  ///< only of "dinov2"
  std::optional<std::string> hidden_act;        ///< "gelu" or "quick_gelu"
  std::optional<double> layer_norm_eps;
};

/// Reads the config of a CLIP, ViT or DINOv2 model from transformers, timm (where the
/// architecture's name and arguments determine the dimensions) or open_clip. All members are
/// nullopt for other kinds of models. Throws std::invalid_argument for models that this program
/// does not support; the exception's text completes a sentence: "its 'hidden_act' is 'relu', …".
PretrainedConfig pretrained_config(const nlohmann::json& config);

/// Returns the options of model.clip for the two-tower CLIP that a config.json from transformers
/// describes: the dimensions of its towers, its activation and its context length. Throws
/// std::invalid_argument for other models and for those that this program does not support; the
/// exception's text completes a sentence: "it describes a 'vit', …".
nlohmann::ordered_json clip_options(const nlohmann::json& config);

}  // namespace runner
