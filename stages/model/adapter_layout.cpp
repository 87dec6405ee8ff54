#include "stages/model/adapter_layout.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_folder.h"

namespace stages {
namespace {

/// The layouts that peft adapts layer by layer. If two fit equally well, the first one is used.
constexpr std::array kLayouts = {WeightLayout::kClip,     WeightLayout::kClipInner,
                                 WeightLayout::kVit,      WeightLayout::kVit5,
                                 WeightLayout::kVitInner, WeightLayout::kVit5Inner,
                                 WeightLayout::kDinov2,   WeightLayout::kDinov25,
                                 WeightLayout::kTimm,     WeightLayout::kTimmClip};

constexpr const char* kClipLibrary = "transformers.models.clip.modeling_clip";
constexpr const char* kVitLibrary = "transformers.models.vit.modeling_vit";
constexpr const char* kDinov2Library = "transformers.models.dinov2.modeling_dinov2";
constexpr const char* kDinov2WithRegistersLibrary =
    "transformers.models.dinov2_with_registers.modeling_dinov2_with_registers";
constexpr const char* kTimmLibrary = "timm.models.vision_transformer";

}  // namespace

ModuleNames module_names(WeightLayout layout) {
  return [layout](std::string_view ours) { return library_name(layout, ours); };
}

WeightLayout layout_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network) {
  std::vector<ModuleNames> libraries;
  for (const WeightLayout layout : kLayouts) libraries.push_back(module_names(layout));
  return kLayouts[names_of_adapter(adapter, network, libraries)];
}

/// Since version 5, transformers' CLIPTextModel has names such as encoder.layers.0.…, which
/// CLIPVisionModel uses for other layers. Only the adapter's config distinguishes the two.
ModuleNames names_in_adapter(const SavedAdapter& adapter, const torch::nn::Module& network) {
  const ModuleNames of_text_model = [](std::string_view ours) -> std::optional<std::string> {
    constexpr std::string_view kTextModel = "text_model.";
    std::optional<std::string> name = library_name(WeightLayout::kClip, ours);
    if (!name || !name->starts_with(kTextModel)) return std::nullopt;
    return name->substr(kTextModel.size());
  };
  const auto has_prefix = [](const NamedTensors::Item& item) {
    return item.first.starts_with("text_");
  };
  const bool is_of_texts = adapter.config.base_class.starts_with("CLIPText");
  if (is_of_texts && std::ranges::none_of(adapter.tensors, has_prefix)) {
    const std::array libraries = {of_text_model};
    names_of_adapter(adapter, network, libraries);
    return of_text_model;
  }
  return module_names(layout_of_adapter(adapter, network));
}

AdapterBase base_of_adapter(const AttachedLora& lora, WeightLayout layout, bool is_projected,
                            bool has_registers) {
  const auto check = [&](const std::string& module) {
    if (library_name(layout, module)) return;
    throw runner::StageError(
        runner::ErrorCode::kOptionConflict,
        std::string(name(layout)) + " has no layer for the adapter of '" + module + "'")
        .with_help("export it with the names used in training: leave out --names");
  };
  for (const LoraLayer& layer : lora.layers) check(layer.module);
  for (const LoraCompanion& companion : lora.companions) check(companion.module);
  switch (layout) {
    case WeightLayout::kClip:
    case WeightLayout::kClipInner:
      return {is_projected ? "CLIPVisionModelWithProjection" : "CLIPVisionModel", kClipLibrary, {}};
    case WeightLayout::kVit:
    case WeightLayout::kVit5:
      return {"ViTForImageClassification", kVitLibrary, {}};
    case WeightLayout::kVitInner:
    case WeightLayout::kVit5Inner:
      return {"ViTModel", kVitLibrary, {}};
    case WeightLayout::kDinov2:
    case WeightLayout::kDinov25:
      if (has_registers) return {"Dinov2WithRegistersModel", kDinov2WithRegistersLibrary, {}};
      return {"Dinov2Model", kDinov2Library, {}};
    case WeightLayout::kTimm:
    case WeightLayout::kTimmClip:
      return {"VisionTransformer", kTimmLibrary, {}};
    case WeightLayout::kOpenClip:
      return {"VisionTransformer", "open_clip.transformer", {}};
  }
  assert(false);
  return {};
}

AdapterBase whole_clip() { return {"CLIPModel", kClipLibrary, {}}; }

namespace {

using runner::ErrorCode;
using runner::StageError;

std::string described_head(OrdinalHead ordinal) {
  return ordinal == OrdinalHead::kNone
             ? "is for classes without an order"
             : "is for ordered classes (" + std::string(name_of(ordinal)) + ")";
}

void check_fit(const AdapterHead& saved, const std::string& folder, const HeadWeights& head) {
  if (saved.ordinal != head.ordinal) {
    throw StageError(ErrorCode::kOptionConflict, "the head next to the adapter in '" + folder +
                                                     "' " + described_head(saved.ordinal) +
                                                     ", but the head to train " +
                                                     described_head(head.ordinal))
        .with_help("train with the same loss.kind, or remove head.safetensors to train a new head");
  }
  if (saved.bias.sizes() == head.bias.sizes() && saved.weight.size(1) == head.weight.size(1)) {
    const bool shares_rows = head.weight.size(0) != head.bias.size(0);
    if (!shares_rows || head.weight.is_meta() ||
        at::equal(saved.weight, saved.weight.select(0, 0).expand_as(saved.weight)))
      return;
    throw StageError(ErrorCode::kDamagedWeights,
                     "the outputs of the CORAL head next to the adapter in '" + folder +
                         "' have different weights, but they must share them")
        .with_help("remove head.safetensors to train a new head");
  }
  throw StageError(ErrorCode::kOptionConflict, "the head next to the adapter in '" + folder +
                                                   "' has " + std::to_string(saved.bias.size(0)) +
                                                   " outputs, but the model has " +
                                                   std::to_string(head.bias.size(0)))
      .with_help("train on its classes, or remove head.safetensors to train a new head");
}

}  // namespace

std::vector<std::string> begin_from(const std::string& folder, const torch::nn::Module& network,
                                    const AttachedLora& lora, const HeadWeights& head) {
  try {
    SavedAdapter saved = read_adapter(folder);
    const ModuleNames names = names_in_adapter(saved, network);
    take_head(saved, names);
    const bool takes_head = saved.head && head.weight.defined();
    if (takes_head) check_fit(*saved.head, saved.folder.string(), head);
    std::vector<std::string> notes = load_adapter(lora, saved, names);
    notes.push_back("starts from the adapter in '" + saved.folder.string() + "'");
    if (takes_head) {
      const torch::NoGradGuard no_graph;
      at::Tensor(head.weight).copy_(saved.head->weight.narrow(0, 0, head.weight.size(0)));
      at::Tensor(head.bias).copy_(saved.head->bias);
    } else if (saved.head) {
      notes.push_back("the head of that adapter is left out: this model has none");
    }
    return notes;
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/adapter").with_help(error.help);
  }
}

std::vector<std::string> without_effect(const AttachedLora& lora) {
  std::vector<std::string> notes;
  for (const std::string& target : lora.unused_targets)
    notes.push_back("targets: '" + target + "' matches no layer");
  for (const std::string& pattern : lora.unused_patterns)
    notes.push_back("'" + pattern +
                    "' in rank_pattern or alpha_pattern matches no layer that has an adapter");
  return notes;
}

}  // namespace stages
