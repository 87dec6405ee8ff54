#include "stages/train/layer_decay.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <variant>

#include <torch/nn/module.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/stage.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/train/muon.h"
#include "stages/train/trainer_options.h"

namespace stages {
namespace {

/// Returns the name for the parameters of `group` that are in `layer`. Those in a tower's last
/// layer keep the group's name.
std::string name_of_part(const std::string& group, const NetworkLayer& layer) {
  if (layer.above == 0) return group;
  std::string name = group.empty() ? "" : group + '/';
  if (!layer.tower.empty() && layer.tower != group) name += layer.tower + '/';
  return name + "layer_" + std::to_string(layer.number);
}

/// Divides the group's parameters by layer, the last layers first.
std::vector<ParameterGroup> divided(const ParameterGroup& group, const NetworkLayers& layers,
                                    double decay) {
  std::map<std::pair<std::int64_t, std::string>, ParameterGroup> parts;
  for (const auto& [name, tensor] : group.parameters) {
    const NetworkLayer layer = layers.layer_of(name);
    const auto [part, is_new] =
        parts.try_emplace({layer.above, layer.above > 0 ? layer.tower : ""},
                          ParameterGroup{group.name, group.optimizer, {}, group.frozen_epochs});
    part->second.parameters.set(name, tensor);
    if (!is_new) continue;
    part->second.name = name_of_part(group.name, layer);
    const double factor = std::pow(decay, static_cast<double>(layer.above));
    std::visit([factor](auto& one) { one.learning_rate *= factor; }, part->second.optimizer);
  }
  std::vector<ParameterGroup> result;
  for (auto& [key, part] : parts) result.push_back(std::move(part));
  return result;
}

[[noreturn]] void refuse_without_blocks(const std::string& tower) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           tower.empty()
                               ? "layer_decay needs a network with blocks, but this one has none"
                               : "layer_decay finds no blocks in the network's " + tower + " tower")
      .at("/layer_decay")
      .with_help(
          "set layer_decay: null; to give layers their own learning rates, use "
          "parameter_groups");
}

bool is_in(const std::string& name, const NetworkPart& tower) {
  return std::ranges::any_of(
      tower.match, [&](std::string_view pattern) { return matches_parameter(name, pattern); });
}

}  // namespace

NetworkLayers::NetworkLayers(const torch::nn::Module& network,
                             const std::vector<NetworkPart>& towers) {
  static const NetworkPart kWhole{.name = "", .match = {"**"}};
  const std::vector<std::string> blocks = blocks_of(network);
  const auto divide_tower = [&](const NetworkPart& tower) {
    std::vector<std::string> parameters, own_blocks;
    for (const auto& item : network.named_parameters())
      if (is_in(item.key(), tower)) parameters.push_back(item.key());
    for (const std::string& block : blocks)
      if (is_in(block, tower)) own_blocks.push_back(block);
    divide(std::string(tower.name), parameters, own_blocks);
  };
  if (towers.empty()) divide_tower(kWhole);
  for (const NetworkPart& tower : towers) divide_tower(tower);
}

void NetworkLayers::divide(const std::string& tower, const std::vector<std::string>& parameters,
                           const std::vector<std::string>& blocks) {
  if (blocks.empty()) {
    if (!without_blocks_) without_blocks_ = tower;
    return;
  }
  const auto last = static_cast<std::int64_t>(blocks.size()) + 1;
  std::int64_t number = 0;
  for (const std::string& parameter : parameters) {
    const auto own = std::ranges::find_if(
        blocks, [&](const std::string& block) { return parameter.starts_with(block + '.'); });
    if (own != blocks.end()) number = own - blocks.begin() + 1;
    else if (number == last - 1) number = last;
    layers_[parameter] = {.tower = tower, .number = number, .above = last - number};
  }
}

NetworkLayer NetworkLayers::layer_of(const std::string& parameter) const {
  const auto found = layers_.find(parameter);
  return found == layers_.end() ? NetworkLayer{} : found->second;
}

std::vector<ParameterGroup> groups_of_training(torch::nn::Module& network,
                                               const TrainerOptions& options) {
  std::vector<ParameterGroup> groups =
      divide_parameters(network, options.optimizer, options.parameter_groups);
  check_muon(groups);
  if (!options.layer_decay) return groups;
  const NetworkLayers layers(network, options.towers);
  if (layers.without_blocks()) refuse_without_blocks(*layers.without_blocks());
  if (*options.layer_decay == 1) return groups;
  std::vector<ParameterGroup> result;
  for (const ParameterGroup& group : groups) {
    for (ParameterGroup& part : divided(group, layers, *options.layer_decay))
      result.push_back(std::move(part));
  }
  return result;
}

}  // namespace stages
