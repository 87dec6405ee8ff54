#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/weights/pretrained_config.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The library whose names the weights of a vision transformer have.
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
  kTimm,       ///< timm's vit_…: blocks.0.attn.qkv
  kTimmClip,   ///< timm's vit_…_clip_…, whose head is CLIP's projection
  kOpenClip,   ///< OpenAI and open_clip: visual.transformer.resblocks.0.attn.in_proj_weight
};

/// "transformers' CLIP", "timm's ViT", … for messages.
std::string_view name(WeightLayout layout);

/// The library's name of a module or parameter that we (vision_tower.h, clip_network.h) call
/// `ours`, such as "vision_model.encoder.layers.0.self_attn.q_proj" or that with ".lora_A.weight";
/// nullopt if it has none. If the library fuses a projection that we keep as parts, the parts have
/// no name; if it keeps parts of one that we fuse, the fused one has none.
std::optional<std::string> library_name(WeightLayout layout, std::string_view ours);

/// The opposite direction.
std::optional<std::string> our_name(WeightLayout layout, std::string_view theirs);

/// Whether queries, keys and values share a layer.
bool is_fused(WeightLayout layout);

/// The layout that tensors of these names have; nullopt if unknown.
std::optional<WeightLayout> layout_of(const NamedTensors& saved);

/// The prefix that programs put before a model's names ("module.", "model.encoder."): without it
/// the names are of a known layout. Empty if they are without one, nullopt if they never are.
/// Throws runner::StageError if several models match, for example below "student." and "teacher.".
std::optional<std::string> wrapper_of(const NamedTensors& saved);

/// The name of a tensor without the leading parts of the wrapper that it has: a head may be outside
/// of some of them.
std::string unwrapped_name(std::string_view name, std::string_view wrapper);

/// The tensors under these names.
NamedTensors unwrapped(const NamedTensors& saved, std::string_view wrapper);

/// The sizes of a vision tower that follow from the shapes of its weights, whichever names they
/// have; the tensors may be on the Meta device. Values that do not follow are absent: the heads,
/// the activation.
runner::PretrainedConfig sizes_of_weights(const NamedTensors& saved);

}  // namespace stages
