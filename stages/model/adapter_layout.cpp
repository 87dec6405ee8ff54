#include "stages/model/adapter_layout.h"

#include <array>
#include <cassert>
#include <vector>

namespace stages {
namespace {

/// Those that peft adapts layer by layer. Of two that fit alike, the first one is taken.
constexpr std::array kLayouts = {WeightLayout::kClip, WeightLayout::kClipInner, WeightLayout::kVit,
                                 WeightLayout::kVit5, WeightLayout::kVitInner,  WeightLayout::kVit5Inner,
                                 WeightLayout::kTimm, WeightLayout::kTimmClip};

constexpr const char* kClipLibrary = "transformers.models.clip.modeling_clip";
constexpr const char* kVitLibrary = "transformers.models.vit.modeling_vit";
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

AdapterBase base_of_adapter(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kClip:
      return {"CLIPVisionModel", kClipLibrary, {}};
    case WeightLayout::kClipInner:
      return {"CLIPVisionTransformer", kClipLibrary, {}};
    case WeightLayout::kVit:
    case WeightLayout::kVit5:
      return {"ViTForImageClassification", kVitLibrary, {}};
    case WeightLayout::kVitInner:
    case WeightLayout::kVit5Inner:
      return {"ViTModel", kVitLibrary, {}};
    case WeightLayout::kTimm:
    case WeightLayout::kTimmClip:
      return {"VisionTransformer", kTimmLibrary, {}};
    case WeightLayout::kOpenClip:
      return {"VisionTransformer", "open_clip.transformer", {}};
  }
  assert(false);
  return {};
}

}  // namespace stages
