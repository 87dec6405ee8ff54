#include "stages/tensor/module_scope.h"

#include <unordered_map>

#include <torch/torch.h>

namespace stages {
namespace {

using PathsByModule = std::unordered_map<const torch::nn::Module*, std::string>;
thread_local const PathsByModule* names_of_thread = nullptr;

}  // namespace

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
