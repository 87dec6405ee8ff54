#pragma once

#include <string>
#include <vector>

#include "stages/model/adapter_folder.h"
#include "stages/model/attached_lora.h"
#include "stages/model/weight_names.h"

namespace stages {

/// The names of a layout, as attach_lora() and its like take them.
ModuleNames module_names(WeightLayout layout);

/// Those by which the adapter's tensors are called: of the layout whose names they bear, or those
/// of a text tower of CLIP by itself. Throws runner::StageError where they are for another network.
ModuleNames names_in_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// The layout whose names the adapter's tensors bear. Throws runner::StageError where they are for
/// another network.
WeightLayout layout_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// The model that peft would have wrapped to save an adapter in that layout; `is_projected`: it has
/// CLIP's projection. Throws runner::StageError where the layout has no name for a layer of `lora`.
AdapterBase base_of_adapter(const AttachedLora& lora, WeightLayout layout, bool is_projected);

/// The same of a CLIP of both towers.
AdapterBase whole_clip();

/// The classifier above a network's adapters, as the network shares it; undefined where there is
/// none.
struct HeadWeights {
  at::Tensor weight, bias;
};

/// Copies the adapter in `folder`, and the head beside it, into those of `network`, by whichever
/// library's names it bears: of a CLIP of both towers it may be for one of them alone, or saved
/// from one. Gives notes on what was taken. Throws runner::StageError, to be blamed on adapter,
/// where it does not fit; then no adapter is changed.
std::vector<std::string> begin_from(const std::string& folder, const torch::nn::Module& network,
                                    const AttachedLora& lora, const HeadWeights& head);

/// Notes on what in the options of `lora` has no effect.
std::vector<std::string> without_effect(const AttachedLora& lora);

}  // namespace stages
