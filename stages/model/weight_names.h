#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/weights/pretrained_config.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// Whose names the weights of a vision transformer bear.
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
  kVit5Inner,  ///< the same of ViTModel: layers.0.attention.q_proj
  kTimm,       ///< timm's vit_…: blocks.0.attn.qkv
  kTimmClip,   ///< timm's vit_…_clip_…, whose head is CLIP's projection
  kOpenClip,   ///< OpenAI and open_clip: visual.transformer.resblocks.0.attn.in_proj_weight
};

/// "transformers' CLIP", "timm's ViT", … for messages.
std::string_view name(WeightLayout layout);

/// What the library calls a module or parameter that we (vision_tower.h, image_classifier.h,
/// clip_network.h) call `ours`, such as "vision_model.encoder.layers.0.self_attn.q_proj" or that
/// and ".lora_A.weight"; nullopt where it has none. The parts of a fused projection that we keep
/// apart have none of their own, and neither has a fused one where the library keeps them apart.
std::optional<std::string> library_name(WeightLayout layout, std::string_view ours);

/// The other way.
std::optional<std::string> our_name(WeightLayout layout, std::string_view theirs);

/// Do queries, keys and values share a layer?
bool is_fused(WeightLayout layout);

/// The layout that tensors of these names are of; nullopt where they are of none.
std::optional<WeightLayout> layout_of(const NamedTensors& saved);

/// What programs put before the names of a model inside theirs ("module.", "model.encoder."),
/// without which the names are of a known layout; empty where they are of one as they are, nullopt
/// where they are of none. Throws runner::StageError where they are those of several models, below
/// "student." and "teacher.", say.
std::optional<std::string> wrapper_of(const NamedTensors& saved);

/// The name of a tensor without as much of the wrapper as is before it: a head may be outside of
/// some of it.
std::string unwrapped_name(std::string_view name, std::string_view wrapper);

/// The tensors by these names.
NamedTensors unwrapped(const NamedTensors& saved, std::string_view wrapper);

/// The sizes of a vision tower that follow from the shapes of its weights, by whichever names they
/// have; the tensors may be on the Meta device. What does not follow is absent: the heads, the
/// activation.
runner::PretrainedConfig sizes_of_weights(const NamedTensors& saved);

}  // namespace stages
