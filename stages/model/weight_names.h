#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/weights/pretrained_config.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The library and model class that define the names of a vision transformer's weights.
enum class WeightLayout {
  kClip,       ///< transformers, CLIPModel, and CLIPVisionModel up to version 4:
               ///< vision_model.encoder.layers.0.…
  kClipInner,  ///< transformers, CLIPVisionTransformer, and CLIPVisionModel from version 5:
               ///< encoder.layers.0.…
  kVit,        ///< transformers, ViTForImageClassification in files:
               ///< vit.encoder.layer.0.attention.attention.query
  kVitInner,   ///< transformers, ViTModel in files: encoder.layer.0.attention.attention.query
  kVit5,       ///< transformers from version 5 in memory, and so in adapters:
               ///< vit.layers.0.attention.q_proj
  kVit5Inner,  ///< the same for ViTModel: layers.0.attention.q_proj
  kDinov2,     ///< transformers, Dinov2Model and Dinov2WithRegistersModel in files:
               ///< encoder.layer.0.layer_scale1.lambda1
  kDinov25,    ///< the same from version 5 in memory: encoder.layer.0.attention.q_proj
  kTimm,       ///< timm's vit_…, including DINOv2: blocks.0.attn.qkv
  kTimmClip,   ///< timm's vit_…_clip_…, with CLIP's projection as the head
  kOpenClip,   ///< OpenAI and open_clip: visual.transformer.resblocks.0.attn.in_proj_weight
};

/// Returns the layout's name for messages: "transformers' CLIP", "timm's ViT", …
std::string_view name(WeightLayout layout);

/// Returns the library's name for a module or parameter that vision_tower.h or clip_network.h calls
/// `ours`, such as "vision_model.encoder.layers.0.self_attn.q_proj", optionally followed by
/// ".lora_A.weight". Returns nullopt if the library has none: separate projections have no name in
/// a library that fuses them, and a fused projection has none in a library that keeps them
/// separate.
std::optional<std::string> library_name(WeightLayout layout, std::string_view ours);

/// Returns our name for a module or parameter that the library calls `theirs`; nullopt if there is
/// none.
std::optional<std::string> our_name(WeightLayout layout, std::string_view theirs);

/// Given the layout of a model, return its layout in memory (since version 5 of transformers) or in
/// files. Both return `layout` itself if that version renamed nothing.
WeightLayout since_version_5(WeightLayout layout);
WeightLayout in_files(WeightLayout layout);

/// True if queries, keys and values share a layer in this layout.
bool is_fused(WeightLayout layout);

/// Returns the layout that the tensors' names belong to; nullopt if it is unknown.
std::optional<WeightLayout> layout_of(const NamedTensors& saved);

/// Returns the prefix ("module.", "model.encoder.") that must be removed from a model's names to
/// get those of a known layout. Returns "" if they already belong to one, and nullopt if there is
/// no such prefix. Throws runner::StageError if there are several models, for example under
/// "student." and "teacher.".
std::optional<std::string> wrapper_of(const NamedTensors& saved);

/// Returns a tensor's name without the leading parts that it shares with the wrapper; a head may
/// lie outside some of these parts.
std::string unwrapped_name(std::string_view name, std::string_view wrapper);

/// Returns the tensors under their unwrapped_name().
NamedTensors unwrapped(const NamedTensors& saved, std::string_view wrapper);

/// Returns the dimensions of a vision tower that follow from the shapes of its weights, in any
/// known layout. The tensors may be on the Meta device. Values that do not follow from shapes, such
/// as the number of heads and the activation, are absent.
runner::PretrainedConfig sizes_of_weights(const NamedTensors& saved);

}  // namespace stages
