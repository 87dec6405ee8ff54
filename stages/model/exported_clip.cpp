#include "stages/model/exported_clip.h"

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "stages/model/weight_names.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

/// What transformers calls alike in the configs of both towers.
Json tower_config(const char* type, const BlockOptions& block, std::int64_t layers, std::int64_t projection_dim) {
  return {{"model_type", type},
          {"hidden_size", block.hidden_size},
          {"intermediate_size", block.intermediate_size},
          {"num_hidden_layers", layers},
          {"num_attention_heads", block.num_attention_heads},
          {"hidden_act", name(block.hidden_act)},
          {"layer_norm_eps", block.layer_norm_eps},
          {"attention_dropout", 0.0},
          {"projection_dim", projection_dim}};
}

}  // namespace

NamedTensors exported(const ClipNetwork& network) {
  NamedTensors tensors;
  for (const auto& item : network.named_parameters()) {
    const auto theirs = library_name(WeightLayout::kClip, item.key());
    if (theirs) tensors.set(*theirs, item.value().detach().contiguous());
  }
  return tensors;
}

/// An end of text of 2 asks for the token with the highest id, as in the configs of OpenAI's weights.
Json exported_config(const ClipOptions& options) {
  constexpr std::int64_t kHighestId = 2;
  Json images =
      tower_config("clip_vision_model", options.image.block, options.image.num_hidden_layers, options.projection_dim);
  images.update(
      {{"image_size", options.image.image_size}, {"patch_size", options.image.patch_size}, {"num_channels", 3}});
  Json texts =
      tower_config("clip_text_model", options.text.block, options.text.num_hidden_layers, options.projection_dim);
  texts.update({{"vocab_size", options.text.vocab_size},
                {"max_position_embeddings", options.text.context_length},
                {"bos_token_id", options.text.end_id - 1},
                {"eos_token_id", options.text.end_token == EndToken::kHighestId ? kHighestId : options.text.end_id},
                {"pad_token_id", options.text.end_id}});
  return {{"model_type", "clip"},     {"architectures", {"CLIPModel"}},     {"projection_dim", options.projection_dim},
          {"torch_dtype", "float32"}, {"vision_config", std::move(images)}, {"text_config", std::move(texts)}};
}

}  // namespace stages
