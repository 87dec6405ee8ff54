#pragma once

#include "stages/model/adapter_folder.h"
#include "stages/model/attached_lora.h"
#include "stages/model/weight_names.h"

namespace stages {

/// The names of a layout, as attach_lora() and its like take them.
ModuleNames module_names(WeightLayout layout);

/// Those by which the adapter's tensors are called: of the layout whose names they bear, or those of a text tower of
/// CLIP by itself. Throws runner::StageError where they are for another network.
ModuleNames names_in_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// The layout whose names the adapter's tensors bear. Throws runner::StageError where they are for another network.
WeightLayout layout_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// The model that peft would have wrapped to save an adapter in that layout; `is_projected`: it has CLIP's projection.
/// Throws runner::StageError where the layout has no name for a layer of `lora`.
AdapterBase base_of_adapter(const AttachedLora& lora, WeightLayout layout, bool is_projected);

/// The same of a CLIP of both towers.
AdapterBase whole_clip();

}  // namespace stages
