#include "stages/model/exported.h"

#include <cassert>

#include <torch/types.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the keys that transformers' configs share. The model computes in float32, as Retort
/// does, regardless of the type of the stored weights.
Json transformers_config(const ImageClassifierOptions& options,
                         const std::vector<std::string>& classes) {
  const BlockOptions& block = options.tower.block;
  Json config = {{"hidden_size", block.hidden_size},
                 {"intermediate_size", block.intermediate_size},
                 {"num_hidden_layers", options.tower.num_hidden_layers},
                 {"num_attention_heads", block.num_attention_heads},
                 {"num_channels", 3},
                 {"image_size", options.tower.image_size},
                 {"patch_size", options.tower.patch_size},
                 {"hidden_act", name(block.hidden_act)},
                 {"layer_norm_eps", block.layer_norm_eps},
                 {"torch_dtype", "float32"}};
  for (std::size_t label = 0; label < classes.size(); ++label) {
    config["id2label"][std::to_string(label)] = classes[label];
    config["label2id"][classes[label]] = label;
  }
  return config;
}

Json clip_config(const ImageClassifierOptions& options, const std::vector<std::string>& classes) {
  Json config = transformers_config(options, classes);
  config["model_type"] = "clip_vision_model";
  config["architectures"] = {options.projection_dim ? "CLIPVisionModelWithProjection"
                                                    : "CLIPVisionModel"};
  if (options.projection_dim) config["projection_dim"] = *options.projection_dim;
  config["attention_dropout"] = options.tower.block.attention_dropout;
  return config;
}

Json vit_config(const ImageClassifierOptions& options, const std::vector<std::string>& classes) {
  Json config = transformers_config(options, classes);
  config["model_type"] = "vit";
  config["architectures"] = {"ViTForImageClassification"};
  config["qkv_bias"] = true;
  config["hidden_dropout_prob"] = 0.0;
  config["attention_probs_dropout_prob"] = 0.0;
  config["encoder_stride"] = options.tower.patch_size;
  return config;
}

/// Returns the config of a Dinov2Model, without a head, because transformers' own head expects
/// twice as many features.
Json dinov2_config(const ImageClassifierOptions& options, const std::vector<std::string>& classes) {
  const std::int64_t registers = options.tower.register_tokens;
  const BlockOptions& block = options.tower.block;
  Json config = transformers_config(options, classes);
  config.erase("intermediate_size");
  config["mlp_ratio"] = block.intermediate_size / block.hidden_size;
  config["model_type"] = registers > 0 ? "dinov2_with_registers" : "dinov2";
  config["architectures"] = {registers > 0 ? "Dinov2WithRegistersModel" : "Dinov2Model"};
  config["qkv_bias"] = true;
  config["layerscale_value"] = 1.0;
  config["drop_path_rate"] = 0.0;
  if (registers > 0) config["num_register_tokens"] = registers;
  else config["use_mask_token"] = false;
  return config;
}

/// Returns timm's name for a model of the family.
const char* timm_architecture(const VisionTowerOptions& tower, bool is_clip) {
  if (is_clip)
    return tower.block.hidden_act == Activation::kQuickGelu ? "vit_base_patch16_clip_quickgelu_224"
                                                            : "vit_base_patch16_clip_224";
  if (!tower.block.layer_scale) return "vit_base_patch16_224";
  return tower.register_tokens > 0 ? "vit_base_patch14_reg4_dinov2" : "vit_base_patch14_dinov2";
}

/// Returns timm's config. It has one of timm's names for the family, from which timm derives the
/// epsilon of the norms, and the shape in model_args.
Json timm_config(const ImageClassifierOptions& options, bool is_clip,
                 const std::vector<std::string>& classes) {
  const BlockOptions& block = options.tower.block;
  const std::int64_t outputs = is_clip ? options.projection_dim.value_or(0) : options.num_classes;
  Json config = {{"architecture", timm_architecture(options.tower, is_clip)},
                 {"num_classes", outputs},
                 {"num_features", block.hidden_size},
                 {"global_pool", "token"},
                 {"model_args",
                  {{"img_size", options.tower.image_size},
                   {"patch_size", options.tower.patch_size},
                   {"embed_dim", block.hidden_size},
                   {"depth", options.tower.num_hidden_layers},
                   {"num_heads", block.num_attention_heads},
                   {"mlp_ratio", static_cast<double>(block.intermediate_size) /
                                     static_cast<double>(block.hidden_size)}}},
                 {"pretrained_cfg",
                  {{"num_classes", outputs},
                   {"input_size", {3, options.tower.image_size, options.tower.image_size}},
                   {"first_conv", "patch_embed.proj"},
                   {"classifier", "head"}}}};
  if (options.tower.register_tokens > 0)
    config["model_args"]["reg_tokens"] = options.tower.register_tokens;
  if (!is_clip) config["label_names"] = classes;
  return config;
}

bool has_classifier(WeightLayout layout) { return library_name(layout, "head.weight").has_value(); }

}  // namespace

ExportedModel exported(const ImageClassifier& network, WeightLayout layout) {
  constexpr const char* kClassToken = "vision_model.embeddings.class_embedding";
  constexpr const char* kPositionsOfTokens = "vision_model.embeddings.position_embedding.weight";
  ExportedModel result;
  result.has_head = has_classifier(layout);
  const bool has_registers = network.options().tower.register_tokens > 0;
  // timm's DINOv2 with register tokens has position embeddings only for the patches, so the class
  // token's position embedding is added to the token itself.
  const bool adds_position = has_registers && layout == WeightLayout::kTimm;
  const auto weights = network.named_parameters();
  for (const auto& item : weights) {
    const auto theirs = library_name(layout, item.key());
    if (!theirs) continue;
    at::Tensor tensor = item.value().detach();
    // transformers' ViT and timm store these with a leading batch dimension of 1.
    const bool is_vit = layout != WeightLayout::kClip && layout != WeightLayout::kClipInner;
    if (is_vit && item.key() == kClassToken) {
      if (adds_position) tensor = tensor + weights[kPositionsOfTokens].detach().select(0, 0);
      tensor = tensor.view({1, 1, -1});
    }
    if (is_vit && item.key() == kPositionsOfTokens)
      tensor = (adds_position ? tensor.slice(0, 1) : tensor).unsqueeze(0);
    if (item.key() == "vision_model.embeddings.register_tokens") tensor = tensor.unsqueeze(0);
    result.tensors.set(*theirs, tensor.contiguous());
  }
  // transformers' model with register tokens always has this tensor, which only pretraining uses.
  if (has_registers && layout == WeightLayout::kDinov2)
    result.tensors.set("embeddings.mask_token",
                       torch::zeros({1, network.options().tower.block.hidden_size}));
  return result;
}

Json exported_config(const ImageClassifierOptions& options, WeightLayout layout,
                     const std::vector<std::string>& classes) {
  switch (layout) {
    case WeightLayout::kClip:
    case WeightLayout::kClipInner:
    case WeightLayout::kOpenClip:
      return clip_config(options, classes);
    case WeightLayout::kVit:
    case WeightLayout::kVitInner:
    case WeightLayout::kVit5:
    case WeightLayout::kVit5Inner:
      return vit_config(options, classes);
    case WeightLayout::kDinov2:
    case WeightLayout::kDinov25:
      return dinov2_config(options, classes);
    case WeightLayout::kTimm:
      return timm_config(options, false, classes);
    case WeightLayout::kTimmClip:
      return timm_config(options, true, classes);
  }
  assert(false);
  return {};
}

}  // namespace stages
