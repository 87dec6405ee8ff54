#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace stages {

/// All modules of a network with their paths in it, itself first, by "".
using ModulesByPath = std::vector<std::pair<std::string, const torch::nn::Module*>>;
ModulesByPath modules_by_path(const torch::nn::Module& network);

/// A module as a recipe names it: by the stage that makes its network, and its path there.
std::string name_in_recipe(const std::string& stage, const std::string& path);

/// The path in the network of `stage` that a recipe's name stands for; nullopt where it is of another stage. A * is any
/// stage.
std::optional<std::string> path_in_network(const std::string& name, const std::string& stage);

}  // namespace stages
