#include "stages/numerics/activation_checkpointing.h"

#include <algorithm>
#include <optional>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/module_names.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

const RecomputableModule* recomputable(const torch::nn::Module* module) {
  return dynamic_cast<const RecomputableModule*>(module);
}

/// Checks a recipe's settings against one network.
class Choice {
 public:
  Choice(const torch::nn::Module& network, const std::string& name, const std::string& policy)
      : modules_(modules_by_path(network)), name_(name), policy_(policy) {}

  void check_blocks() const {
    const auto is_block = [](const auto& entry) {
      const RecomputableModule* module = recomputable(entry.second);
      return module && module->is_block();
    };
    if (std::ranges::any_of(modules_, is_block)) return;
    refuse("", "the network of '" + name_ + "' has no blocks that can be recomputed",
           "set activation_checkpointing: none");
  }

  /// Returns the path in the network for the name at index `number` in the recipe's list.
  std::string path(std::size_t number, const std::string& written) const {
    const std::string place = "/" + std::to_string(number);
    const std::optional<std::string> path = path_in_network(written, name_);
    const torch::nn::Module* named = nullptr;
    for (const auto& [own_path, module] : modules_) {
      if (!path || !names_module(*path, own_path)) continue;
      if (recomputable(module)) return *path;
      if (!named) named = module;
    }
    if (named) {
      refuse(place, "'" + written + "' does not match any module that can be recomputed on its own",
             advice(*path));
    }
    std::string help = runner::did_you_mean(written, known());
    if (help.empty()) help = advice("");
    refuse(place, "'" + written + "' does not match any module in the network of '" + name_ + "'",
           help);
  }

 private:
  /// Suggests a name to use instead of `path`, which matches no module that can be recomputed.
  std::string advice(std::string path) const {
    const auto within = std::ranges::find_if(modules_, [&path](const auto& entry) {
      return !path.empty() && recomputable(entry.second) && names_module(path + ".*", entry.first);
    });
    if (within != modules_.end())
      return "choose a module inside it, such as '" + name_in_recipe(name_, within->first) + "'";
    while (!path.empty()) {
      path.resize(path.find('.') == path.npos ? 0 : path.rfind('.'));
      const auto around = std::ranges::find_if(modules_, [&path](const auto& entry) {
        return names_module(path, entry.first) && recomputable(entry.second);
      });
      if (around != modules_.end())
        return "name '" + name_in_recipe(name_, path) + "', which contains it";
    }
    const std::vector<std::string> names = known();
    if (names.empty())
      return "no part of this network can be recomputed; set activation_checkpointing: none";
    return "specify a module by its stage and its path in the network, such as '" + names.front() +
           "'";
  }

  /// Returns the names of all modules that can be recomputed.
  std::vector<std::string> known() const {
    std::vector<std::string> names;
    for (const auto& [path, module] : modules_) {
      if (recomputable(module)) names.push_back(name_in_recipe(name_, path));
    }
    return names;
  }

  [[noreturn]] void refuse(const std::string& place, const std::string& message,
                           const std::string& help) const {
    throw runner::StageError(runner::ErrorCode::kUnknownKey, message)
        .at("/activation_checkpointing" + place)
        .in_stage(policy_)
        .with_help(help);
  }

  const ModulesByPath modules_;
  const std::string& name_;
  const std::string& policy_;
};

}  // namespace

ActivationCheckpointing activation_checkpointing_for(const torch::nn::Module& network,
                                                     const std::string& name,
                                                     const ActivationCheckpointing& written,
                                                     const std::string& policy) {
  const Choice choice(network, name, policy);
  if (written.blocks) choice.check_blocks();
  ActivationCheckpointing own{
      .blocks = written.blocks, .modules = {}, .updates_twice = written.updates_twice};
  for (std::size_t number = 0; number < written.modules.size(); ++number)
    own.modules.push_back(choice.path(number, written.modules[number]));
  return own;
}

std::vector<std::string> blocks_of(const torch::nn::Module& network) {
  std::vector<std::string> blocks;
  for (const auto& [path, module] : modules_by_path(network)) {
    const RecomputableModule* const block = recomputable(module);
    if (block && block->is_block()) blocks.push_back(path);
  }
  return blocks;
}

Json to_json(const ActivationCheckpointing& modules) {
  if (modules.blocks) return "block";
  if (modules.modules.empty()) return "none";
  return modules.modules;
}

}  // namespace stages
