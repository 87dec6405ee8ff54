#pragma once

#include <string>
#include <vector>

#include "stages/model/adapter_folder.h"
#include "stages/model/attached_lora.h"
#include "stages/model/weight_names.h"

namespace stages {

/// Returns the names of a layout, in the form that attach_lora() and similar functions accept.
ModuleNames module_names(WeightLayout layout);

/// Returns the names that the adapter's tensors use: the names of a layout, or of transformers'
/// separate CLIP text model. Throws runner::StageError if they are for another network.
ModuleNames names_in_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// Returns the layout of the adapter's tensor names. Throws runner::StageError if they are for
/// another network.
WeightLayout layout_of_adapter(const SavedAdapter& adapter, const torch::nn::Module& network);

/// Returns the model that peft would have wrapped to save an adapter in that layout, with CLIP's
/// projection if `is_projected` and DINOv2's register tokens if `has_registers`. Throws
/// runner::StageError if the layout has no name for a layer of `lora`.
AdapterBase base_of_adapter(const AttachedLora& lora, WeightLayout layout, bool is_projected,
                            bool has_registers = false);

/// Returns the model that peft would have wrapped to save an adapter for both of CLIP's towers.
AdapterBase whole_clip();

/// The weights of an adapted network's classifier. They share the network's memory and are
/// undefined if it has no classifier.
struct HeadWeights {
  at::Tensor weight, bias;
  OrdinalHead ordinal = OrdinalHead::kNone;
};

/// Loads the adapter in `folder` into `lora`, and a head next to it into `head`. The adapter may
/// use any supported library's names. For a CLIP model with both towers, an adapter of only one
/// tower is also accepted. Returns notes on what was loaded. Throws runner::StageError at the
/// `adapter` option if the adapter does not match the network; in that case no adapter is changed.
std::vector<std::string> begin_from(const std::string& folder, const torch::nn::Module& network,
                                    const AttachedLora& lora, const HeadWeights& head);

/// Returns notes on options of `lora` that have no effect.
std::vector<std::string> without_effect(const AttachedLora& lora);

}  // namespace stages
