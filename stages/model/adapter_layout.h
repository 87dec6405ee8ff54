#pragma once

#include <string>
#include <vector>

#include "stages/model/adapter_folder.h"
#include "stages/model/attached_lora.h"
#include "stages/model/weight_names.h"

namespace stages {

/// The names of a layout, in the form that attach_lora() and similar functions take.
ModuleNames module_names(WeightLayout layout);

/// The names that the adapter's tensors have: those of a layout, or those of a CLIP text tower by
/// itself. Throws runner::StageError if they are for another network.
ModuleNames names_in_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// The layout whose names the adapter's tensors have. Throws runner::StageError if they are for
/// another network.
WeightLayout layout_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// The model that peft would have wrapped to save an adapter in that layout; `is_projected`: with
/// CLIP's projection. Throws runner::StageError if the layout has no name for a layer of `lora`.
AdapterBase base_of_adapter(const AttachedLora& lora, WeightLayout layout, bool is_projected);

/// The same for a CLIP with both towers.
AdapterBase whole_clip();

/// The classifier on top of a network's adapters, sharing the network's tensors; undefined if there
/// is none.
struct HeadWeights {
  at::Tensor weight, bias;
};

/// Loads the adapter in `folder`, and the head next to it, into those of `network`, whichever
/// library's names it has. For a CLIP with both towers it may be for one tower only, or saved from
/// one. Returns notes on what was loaded. Throws runner::StageError, to be reported at `adapter`,
/// if it does not fit; then no adapter is changed.
std::vector<std::string> begin_from(const std::string& folder, const torch::nn::Module& network,
                                    const AttachedLora& lora, const HeadWeights& head);

/// Notes on options of `lora` that have no effect.
std::vector<std::string> without_effect(const AttachedLora& lora);

}  // namespace stages
