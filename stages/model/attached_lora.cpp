#include "stages/model/attached_lora.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/initializer.h"
#include "stages/model/lora_targets.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// A module for which the library has a name.
struct Named {
  std::string ours, name;
  std::shared_ptr<torch::nn::Module> module;
  std::shared_ptr<AdaptableLayer> layer;  // null: the module cannot have an adapter
};

std::vector<Named> named_modules(const torch::nn::Module& network, const ModuleNames& names) {
  std::vector<Named> result;
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    const std::optional<std::string> name = names(item.key());
    if (!name) continue;
    result.push_back(
        {item.key(), *name, item.value(), std::dynamic_pointer_cast<AdaptableLayer>(item.value())});
  }
  return result;
}

void initialize(const Named& target, const LoraAdapter& adapter, LoraInitialization initialization,
                std::uint64_t seed) {
  const torch::NoGradGuard no_graph;
  at::Tensor a = adapter.a(), b = adapter.b();
  const auto generator = [&](const char* factor) {
    return weight_generator(target.ours + factor, seed);
  };
  const double bound = 1 / std::sqrt(static_cast<double>(a[0].numel()));
  const double deviation = 1 / static_cast<double>(adapter.rank());
  if (initialization == LoraInitialization::kGaussian)
    a.normal_(0, deviation, generator(".lora_A.weight"));
  else a.uniform_(-bound, bound, generator(".lora_A.weight"));
  const double bound_of_b = std::sqrt(deviation);
  if (initialization == LoraInitialization::kRandom)
    b.uniform_(-bound_of_b, bound_of_b, generator(".lora_B.weight"));
  else b.zero_();
}

/// Throws if the options request more principal components than a target has.
void check_principal(const Named& named, std::int64_t rank) {
  const at::Tensor& weight = named.layer->weight;
  if (weight.dim() != 2) {
    throw StageError(ErrorCode::kOptionConflict,
                     "initialization is pissa, which is for linear layers, but '" + named.name +
                         "' is a convolution")
        .at("/targets")
        .with_help("add it to 'exclude', or set initialization: kaiming");
  }
  const std::int64_t most = std::min(weight.size(0), weight.size(1));
  if (rank <= most) return;
  throw StageError(ErrorCode::kOptionConflict, "initialization is pissa and the rank is " +
                                                   std::to_string(rank) + ", but the weight of '" +
                                                   named.name + "' has only " +
                                                   std::to_string(most) + " singular values")
      .at("/rank")
      .with_help("set rank to at most " + std::to_string(most));
}

/// Returns the items of `names` that match no module.
std::vector<std::string> missing_modules(const std::vector<std::string>& names,
                                         const std::vector<Named>& modules) {
  std::vector<std::string> missing;
  for (const std::string& item : names) {
    const auto is_in = [&](const Named& module) { return is_in_module(module.name, {item}); };
    if (std::ranges::none_of(modules, is_in)) missing.push_back(item);
  }
  return missing;
}

/// Returns the biases and saved modules to train, in the order of the network's modules.
std::vector<LoraCompanion> companions(const LoraOptions& options,
                                      const std::vector<Named>& modules) {
  std::vector<LoraCompanion> result;
  for (const Named& named : modules) {
    const bool is_adapted = named.layer && named.layer->adapter();
    const bool is_saved = is_in_module(named.name, options.modules_to_save);
    for (const auto& parameter : named.module->named_parameters(/*recurse=*/false)) {
      const bool trains_bias =
          options.bias == LoraBias::kAll || (options.bias == LoraBias::kAdapted && is_adapted);
      if (is_saved || (parameter.key() == "bias" && trains_bias))
        result.push_back({named.ours, parameter.key(), is_adapted, parameter.value()});
    }
  }
  return result;
}

/// Returns the module's name in adapter files; "?" and our name if the library has no such module.
std::string called(const ModuleNames& names, const std::string& ours) {
  return names(ours).value_or("?" + ours);
}

/// Returns a regular expression that matches only `name`.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char letter : name)
    text += letter == '.' ? std::string("\\.") : std::string(1, letter);
  return text;
}

/// Returns the modules that are saved in full.
std::set<std::string> saved_modules(const AttachedLora& lora) {
  std::set<std::string> modules;
  for (const LoraCompanion& companion : lora.companions) {
    if (companion.parameter != "bias") modules.insert(companion.module);
  }
  return modules;
}

/// True if the options of `lora` select the same layers and saved modules when applied to these
/// names.
bool means_the_same(const AttachedLora& lora, const ModuleNames& names) {
  std::set<std::string> saved;
  for (const auto& [module, is_adaptable] : lora.modules) {
    const std::optional<std::string> name = names(module);
    if (name && is_in_module(*name, lora.options.modules_to_save)) saved.insert(module);
  }
  try {
    return saved == saved_modules(lora) &&
           chosen_layers(lora, lora.options, names) == adapted_layers(lora);
  } catch (const StageError&) {
    return false;
  }
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// Returns every layer that has an adapter, with its name.
std::vector<std::pair<std::string, AdaptableLayer*>> layers_with_adapter(
    const torch::nn::Module& network) {
  std::vector<std::pair<std::string, AdaptableLayer*>> result;
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    auto* layer = dynamic_cast<AdaptableLayer*>(item.value().get());
    if (layer && layer->adapter()) result.emplace_back(item.key(), layer);
  }
  return result;
}

}  // namespace

AttachedLora attach_lora(torch::nn::Module& network, const LoraOptions& options,
                         const ModuleNames& names, std::uint64_t seed) {
  const std::vector<Named> modules = named_modules(network, names);
  std::vector<TargetCandidate> candidates;
  for (const Named& module : modules) candidates.push_back({module.name, module.layer != nullptr});
  const std::vector<LoraTarget> targets = select_targets(options, candidates);
  if (const auto missing = missing_modules(options.modules_to_save, modules); !missing.empty()) {
    throw StageError(ErrorCode::kOptionConflict, "no module is called '" + missing.front() + "'")
        .at("/modules_to_save")
        .with_help("list names of modules to train in full, such as a head inside the backbone");
  }

  const LoraVariant variant = {
      .has_magnitude = options.dora,
      .is_principal = options.initialization == LoraInitialization::kPrincipal};
  if (variant.is_principal) {
    for (const LoraTarget& target : targets) check_principal(modules[target.index], target.rank);
  }

  AttachedLora lora{.options = options,
                    .unused_targets = unused_targets(options, candidates),
                    .unused_patterns = unused_patterns(options, candidates, targets)};
  for (const at::Tensor& parameter : network.parameters()) parameter.set_requires_grad(false);
  for (const Named& named : modules) lora.modules.emplace_back(named.ours, named.layer != nullptr);
  for (const LoraTarget& target : targets) {
    const Named& named = modules[target.index];
    const auto adapter = std::make_shared<LoraAdapter>(
        named.layer->weight, target.rank, lora_scaling(options, target.rank, target.alpha),
        options.dropout, named.layer->steps(), variant);
    if (!named.layer->weight.is_meta()) initialize(named, *adapter, options.initialization, seed);
    named.layer->attach(adapter);
    lora.layers.push_back({named.ours, named.layer, target.alpha});
  }
  lora.companions = companions(options, modules);
  for (const LoraCompanion& companion : lora.companions) companion.tensor.set_requires_grad(true);
  return lora;
}

void start_from_weights(const AttachedLora& lora) {
  for (const LoraLayer& layer : lora.layers) {
    if (!layer.layer->weight.is_meta()) layer.layer->adapter()->start_from(layer.layer->weight);
  }
}

bool depends_on_weights(const LoraOptions& options) {
  return options.dora || options.initialization == LoraInitialization::kPrincipal;
}

NamedTensors adapter_tensors(const AttachedLora& lora, const ModuleNames& names) {
  std::vector<NamedTensors::Item> tensors;
  for (const LoraLayer& layer : lora.layers) {
    const std::string name = called(names, layer.module);
    tensors.emplace_back(name + ".lora_A.weight", layer.layer->adapter()->a());
    tensors.emplace_back(name + ".lora_B.weight", layer.layer->adapter()->b());
    if (layer.layer->adapter()->has_magnitude())
      tensors.emplace_back(name + ".lora_magnitude_vector", layer.layer->adapter()->magnitude());
  }
  for (const LoraCompanion& companion : lora.companions) {
    const char* between = companion.is_adapted ? ".base_layer." : ".";
    tensors.emplace_back(called(names, companion.module) + between + companion.parameter,
                         companion.tensor);
  }
  return NamedTensors(std::move(tensors));
}

std::vector<ChosenLayer> adapted_layers(const AttachedLora& lora) {
  std::vector<ChosenLayer> result;
  for (const LoraLayer& layer : lora.layers) {
    const LoraAdapter& adapter = *layer.layer->adapter();
    result.push_back({layer.module, adapter.rank(), adapter.scaling()});
  }
  return result;
}

std::vector<ChosenLayer> chosen_layers(const AttachedLora& lora, const LoraOptions& options,
                                       const ModuleNames& names) {
  std::vector<TargetCandidate> candidates;
  std::vector<std::string> ours;
  for (const auto& [module, is_adaptable] : lora.modules) {
    const std::optional<std::string> name = names(module);
    if (!name) continue;
    candidates.push_back({*name, is_adaptable});
    ours.push_back(module);
  }
  std::vector<ChosenLayer> result;
  for (const LoraTarget& target : select_targets(options, candidates))
    result.push_back(
        {ours[target.index], target.rank, lora_scaling(options, target.rank, target.alpha)});
  return result;
}

LoraOptions without_principal(LoraOptions options) {
  if (options.initialization != LoraInitialization::kPrincipal) return options;
  options.initialization = LoraInitialization::kKaiming;
  const double same_scaling = options.rank_stabilized ? std::sqrt(2.0) : 2.0;
  options.rank *= 2;
  options.alpha *= same_scaling;
  for (auto& [pattern, rank] : options.rank_pattern) rank *= 2;
  for (auto& [pattern, alpha] : options.alpha_pattern) alpha *= same_scaling;
  return options;
}

LoraOptions options_for(const AttachedLora& lora, const ModuleNames& names) {
  if (means_the_same(lora, names)) return lora.options;
  LoraOptions options = lora.options;
  options.exclude = {};
  options.layers = {};
  options.layers_pattern = {};
  options.rank_pattern = {};
  options.alpha_pattern = {};
  std::vector<std::string> targets;
  for (const LoraLayer& layer : lora.layers) {
    targets.push_back(called(names, layer.module));
    const std::string expression = "^" + escaped(targets.back());
    const std::int64_t rank = layer.layer->adapter()->rank();
    if (rank != options.rank) options.rank_pattern.emplace_back(expression, rank);
    if (layer.alpha != options.alpha) options.alpha_pattern.emplace_back(expression, layer.alpha);
  }
  options.targets = targets;
  options.modules_to_save = {};
  for (const std::string& module : saved_modules(lora))
    options.modules_to_save.push_back(called(names, module));
  return options;
}

void merge_lora(torch::nn::Module& network) {
  const auto layers = layers_with_adapter(network);
  for (const auto& [name, layer] : layers) {
    try {
      layer->merged_weight();
    } catch (const std::domain_error&) {
      throw StageError(
          ErrorCode::kStageFailed,
          "the adapter of '" + name + "' cannot be merged: the weight would not be finite")
          .with_help("training has diverged: use an earlier checkpoint");
    }
  }
  for (const auto& [name, layer] : layers) {
    layer->merge();
    layer->detach();
  }
}

std::string trainable_line(const torch::nn::Module& network) {
  std::int64_t trained = 0, all = 0;
  for (const at::Tensor& parameter : network.parameters()) {
    all += parameter.numel();
    if (parameter.requires_grad()) trained += parameter.numel();
  }
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.4f",
                all == 0 ? 0.0 : 100.0 * static_cast<double>(trained) / static_cast<double>(all));
  return "trainable params: " + with_commas(trained) + " || all params: " + with_commas(all) +
         " || trainable%: " + percent;
}

}  // namespace stages
