#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/model/adaptable_layer.h"
#include "stages/model/lora_targets.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// What a library calls the module that we call by that dotted name; nullopt: it has none such.
using ModuleNames = std::function<std::optional<std::string>(std::string_view ours)>;

/// An adapter in a network.
struct LoraLayer {
  std::string module;  ///< ours: "vision_model.encoder.layers.0.self_attn.q_proj"
  std::shared_ptr<AdaptableLayer> layer;
  double alpha = 0;
};

/// A parameter that is trained and saved with the adapters: of a bias or of modules_to_save.
struct LoraCompanion {
  std::string module;       ///< ours
  std::string parameter;    ///< "bias"
  bool is_adapted = false;  ///< the module has an adapter
  at::Tensor tensor;
};

/// The adapters of a network, as its modules share them.
struct AttachedLora {
  LoraOptions options;
  std::vector<LoraLayer> layers;            ///< in the order of the network's modules
  std::vector<LoraCompanion> companions;    ///< likewise
  std::vector<std::string> unused_targets;  ///< items of targets that name nothing
  std::vector<std::string>
      unused_patterns;  ///< of rank_pattern and alpha_pattern, that match no layer of these
  std::vector<std::pair<std::string, bool>>
      modules;  ///< all of the network's: ours, and whether it can have an adapter
};

/// Gives each layer that the options name an adapter, initialised as they say: a weight is a
/// function of (seed, its name, its shape). Then exactly the adapters and their companions need a
/// gradient, no other parameter of the network:
///
///   const auto names = [&](std::string_view ours) { return library_name(layout, ours); };
///   AttachedLora lora = attach_lora(*network, options, names, seed);
///   network->head()->weight.requires_grad_(true);  // where the head is no module of the library's
///
/// Throws runner::StageError where the options do not suit the network (select_targets), blaming an
/// option of theirs, and then has changed nothing.
AttachedLora attach_lora(torch::nn::Module& network, const LoraOptions& options,
                         const ModuleNames& names, std::uint64_t seed);

/// Every tensor of an adapter file by its name there, without "base_model.model.": the parameters
/// themselves. `names` may be another library's than the one that the options were written for.
NamedTensors adapter_tensors(const AttachedLora& lora, const ModuleNames& names);

/// A layer that options choose in a network: our name of it, and what its adapter multiplies
/// B(A(x)) with.
struct ChosenLayer {
  std::string module;
  std::int64_t rank = 0;
  double scaling = 0;

  bool operator==(const ChosenLayer&) const = default;
};

/// The layers that have adapters.
std::vector<ChosenLayer> adapted_layers(const AttachedLora& lora);
/// Those that `options`, written for the names of `names`, would give one. Throws as attach_lora().
std::vector<ChosenLayer> chosen_layers(const AttachedLora& lora, const LoraOptions& options,
                                       const ModuleNames& names);

/// Options that mean the same layers by the names of `names`: those that were given where they do,
/// else such that name each layer in full.
LoraOptions options_for(const AttachedLora& lora, const ModuleNames& names);

/// Merges every adapter and takes it off: the network is as if its layers had always had those
/// weights. Throws runner::StageError naming a layer whose weight would not be finite; then nothing
/// is merged.
void merge_lora(torch::nn::Module& network);

/// "trainable params: 786,432 || all params: 303,966,208 || trainable%: 0.2587", as peft counts.
std::string trainable_line(const torch::nn::Module& network);

}  // namespace stages
