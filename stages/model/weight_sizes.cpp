#include "stages/model/weight_sizes.h"

#include <string>

#include "stages/model/weight_names.h"

namespace stages {

runner::PretrainedConfig sizes_of_weights(const NamedTensors& named) {
  runner::PretrainedConfig sizes;
  const NamedTensors saved = unwrapped(named, wrapper_of(named).value_or(""));
  const auto layout = layout_of(saved);
  if (!layout) return sizes;
  /// The size of our weight `ours` along `dimension`, counted from the last one where negative.
  const auto size = [&](const std::string& ours, std::int64_t dimension) -> std::optional<std::int64_t> {
    const auto theirs = library_name(*layout, ours);
    if (!theirs || !saved.contains(*theirs)) return std::nullopt;
    const at::Tensor& tensor = saved.at(*theirs);
    const bool has_it = dimension < 0 ? tensor.dim() >= -dimension : tensor.dim() > dimension;
    return has_it ? std::optional(tensor.size(dimension)) : std::nullopt;
  };
  sizes.hidden_size = size("vision_model.embeddings.patch_embedding.weight", 0);
  sizes.patch_size = size("vision_model.embeddings.patch_embedding.weight", -1);
  const std::string blocks = "vision_model.encoder.layers.";
  sizes.intermediate_size = size(blocks + "0.mlp.fc1.weight", 0);
  std::int64_t layers = 0;
  while (size(blocks + std::to_string(layers) + ".layer_norm1.weight", 0)) ++layers;
  if (layers > 0) sizes.num_hidden_layers = layers;
  // OpenAI applies its projection from the right.
  sizes.projection_dim = size("visual_projection.weight", *layout == WeightLayout::kOpenClip ? -1 : 0);
  return sizes;
}

}  // namespace stages
