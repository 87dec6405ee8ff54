#include "stages/tensor/module_names.h"

#include <algorithm>

#include <torch/torch.h>

namespace stages {

ModulesByPath modules_by_path(const torch::nn::Module& network) {
  ModulesByPath modules;
  network.apply([&](const std::string& path, const torch::nn::Module& module) { modules.emplace_back(path, &module); });
  return modules;
}

std::string name_in_recipe(const std::string& stage, const std::string& path) {
  return path.empty() ? stage : stage + "." + path;
}

std::optional<std::string> path_in_network(const std::string& name, const std::string& stage) {
  const std::size_t end = std::min(name.find('.'), name.size());
  const std::string first = name.substr(0, end);
  if (first != stage && first != "*") return {};
  return name.substr(std::min(end + 1, name.size()));
}

}  // namespace stages
