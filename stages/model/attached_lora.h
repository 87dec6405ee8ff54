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

/// Maps our dotted name for a module to a library's name; nullopt if the library has no such
/// module.
using ModuleNames = std::function<std::optional<std::string>(std::string_view ours)>;

/// An adapter in a network.
struct LoraLayer {
  std::string module;  ///< our name: "vision_model.encoder.layers.0.self_attn.q_proj"
  std::shared_ptr<AdaptableLayer> layer;
  double alpha = 0;
};

/// A parameter that is trained and saved with the adapters: a bias, or part of modules_to_save.
struct LoraCompanion {
  std::string module;       ///< our name
  std::string parameter;    ///< "bias"
  bool is_adapted = false;  ///< the module has an adapter
  at::Tensor tensor;
};

/// The adapters of a network, sharing its modules.
struct AttachedLora {
  LoraOptions options;
  std::vector<LoraLayer> layers;            ///< in the order of the network's modules
  std::vector<LoraCompanion> companions;    ///< in the order of the network's modules
  std::vector<std::string> unused_targets;  ///< items of targets that match nothing
  std::vector<std::string>
      unused_patterns;  ///< items of rank_pattern and alpha_pattern that match none of these layers
  std::vector<std::pair<std::string, bool>>
      modules;  ///< all modules of the network: our name, and whether it can have an adapter
};

/// Attaches an adapter to each layer that the options select and initializes it as the options
/// specify; each weight is a function of (seed, its name, its shape). Afterward, the adapters and
/// their companions are the only parameters of the network that require gradients:
///
///   const auto names = [&](std::string_view ours) { return library_name(layout, ours); };
///   AttachedLora lora = attach_lora(*network, options, names, seed);
///   network->head()->weight.requires_grad_(true);  // if the library has no head
///
/// Throws runner::StageError at one of the options if they do not suit the network (see
/// select_targets()); in that case nothing is changed.
AttachedLora attach_lora(torch::nn::Module& network, const LoraOptions& options,
                         const ModuleNames& names, std::uint64_t seed);

/// Initializes everything that depends on the values of the adapted layers' weights: the
/// magnitudes, and the initial values of principal adapters (see LoraVariant). Call this once the
/// network has its weights. Does nothing on the Meta device.
void start_from_weights(const AttachedLora& lora);
/// True if start_from_weights() reads weights for adapters with these options.
bool depends_on_weights(const LoraOptions& options);

/// Returns the tensors of an adapter file under their names in that file, without
/// "base_model.model.". They are the parameters themselves, not copies. `names` may belong to a
/// library other than the one that the options were written for.
NamedTensors adapter_tensors(const AttachedLora& lora, const ModuleNames& names);

/// A layer that options select in a network: our name, and its adapter's rank and scaling.
struct ChosenLayer {
  std::string module;
  std::int64_t rank = 0;
  double scaling = 0;

  bool operator==(const ChosenLayer&) const = default;
};

/// Returns the layers that have adapters.
std::vector<ChosenLayer> adapted_layers(const AttachedLora& lora);
/// Returns the layers to which `options`, written with the names from `names`, would attach
/// adapters. Throws like attach_lora().
std::vector<ChosenLayer> chosen_layers(const AttachedLora& lora, const LoraOptions& options,
                                       const ModuleNames& names);

/// For principal adapters with `options`, returns the options of equivalent plain adapters, with
/// twice the rank and the same scaling; returns other options unchanged. The plain adapters have
/// the factors of LoraAdapter::factors().
LoraOptions without_principal(LoraOptions options);

/// Returns options that select the same layers by their names in `names`: the options of `lora` if
/// they do so, otherwise options that list each layer's full name.
LoraOptions options_for(const AttachedLora& lora, const ModuleNames& names);

/// Merges every adapter into its layer's weight and removes it. If a merged weight would not be
/// finite, throws runner::StageError naming the layer; in that case nothing is merged.
void merge_lora(torch::nn::Module& network);

/// Returns "trainable params: 786,432 || all params: 303,966,208 || trainable%: 0.2587", as peft
/// counts them.
std::string trainable_line(const torch::nn::Module& network);

}  // namespace stages
