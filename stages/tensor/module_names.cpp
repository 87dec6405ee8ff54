#include "stages/tensor/module_names.h"

#include <algorithm>
#include <unordered_map>

#include <torch/nn/module.h>

namespace stages {
namespace {

using PathsByModule = std::unordered_map<const torch::nn::Module*, std::string>;
thread_local const PathsByModule* names_of_thread = nullptr;

}  // namespace

ModulesByPath modules_by_path(const torch::nn::Module& network) {
  ModulesByPath modules;
  network.apply([&](const std::string& path, const torch::nn::Module& module) {
    modules.emplace_back(path, &module);
  });
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

ScopedModuleNames::ScopedModuleNames(const torch::nn::Module& network, const std::string& prefix)
    : before_(names_of_thread) {
  auto* const names = new PathsByModule;
  for (const auto& item : network.named_modules(prefix, /*include_self=*/false))
    names->emplace(item.value().get(), item.key());
  names->emplace(&network, prefix);
  names_of_thread = names;
}

ScopedModuleNames::~ScopedModuleNames() {
  delete names_of_thread;
  names_of_thread = static_cast<const PathsByModule*>(before_);
}

std::string running_path() {
  if (!names_of_thread || !running_module) return "";
  const auto found = names_of_thread->find(running_module);
  return found == names_of_thread->end() ? "" : found->second;
}

}  // namespace stages
