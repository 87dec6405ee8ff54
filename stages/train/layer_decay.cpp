#include "stages/train/layer_decay.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include <torch/nn/module.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/stage.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/train/muon.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/trainer_options.h"

namespace stages {
namespace {

/// Divides the group's parameters by layer. Those of the last layer keep the group's name.
std::vector<ParameterGroup> divided(const ParameterGroup& group, const NetworkLayers& layers,
                                    double decay) {
  std::vector<ParameterGroup> result;
  const std::int64_t last = layers.count() - 1;
  for (std::int64_t layer = last; layer >= 0; --layer) {
    ParameterGroup part{group.name, group.optimizer, {}, group.frozen_epochs};
    for (const auto& [name, tensor] : group.parameters) {
      if (layers.layer_of(name) == layer) part.parameters.set(name, tensor);
    }
    if (part.parameters.begin() == part.parameters.end()) continue;
    if (layer < last) {
      if (!part.name.empty()) part.name += '/';
      part.name += "layer_" + std::to_string(layer);
    }
    std::visit(
        [&](auto& one) { one.learning_rate *= std::pow(decay, static_cast<double>(last - layer)); },
        part.optimizer);
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace

NetworkLayers::NetworkLayers(const torch::nn::Module& network) : blocks_(blocks_of(network)) {
  std::int64_t layer = 0;
  const auto count = static_cast<std::int64_t>(blocks_.size());
  for (const auto& item : network.named_parameters()) {
    const auto contains = [&](const std::string& block) {
      return item.key().starts_with(block + '.');
    };
    const auto own = std::ranges::find_if(blocks_, contains);
    if (own != blocks_.end()) layer = own - blocks_.begin() + 1;
    parameters_.push_back(item.key());
    layers_.push_back(layer);
  }
  if (count == 0) return;
  // Parameters registered after the last block form the last layer.
  for (auto one = layers_.size(); one > 0 && layers_[one - 1] == count; --one) {
    if (parameters_[one - 1].starts_with(blocks_.back() + '.')) break;
    layers_[one - 1] = count + 1;
  }
}

std::int64_t NetworkLayers::layer_of(const std::string& parameter) const {
  const auto found = std::ranges::find(parameters_, parameter);
  return found == parameters_.end()
             ? count() - 1
             : layers_[static_cast<std::size_t>(found - parameters_.begin())];
}

std::vector<ParameterGroup> groups_of_training(torch::nn::Module& network,
                                               const TrainerOptions& options) {
  std::vector<ParameterGroup> groups =
      divide_parameters(network, options.optimizer, options.parameter_groups);
  check_muon(groups);
  if (!options.layer_decay) return groups;
  const NetworkLayers layers(network);
  if (layers.count() == 1) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "layer_decay needs a network with blocks, but this one has none")
        .at("/layer_decay")
        .with_help(
            "set layer_decay: null; to give layers their own learning rates, use "
            "parameter_groups");
  }
  if (*options.layer_decay == 1) return groups;
  std::vector<ParameterGroup> result;
  for (const ParameterGroup& group : groups) {
    for (ParameterGroup& part : divided(group, layers, *options.layer_decay))
      result.push_back(std::move(part));
  }
  return result;
}

}  // namespace stages
