#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace stages {

/// All modules of a network with their paths in it. The network itself comes first, with the path
/// "".
using ModulesByPath = std::vector<std::pair<std::string, const torch::nn::Module*>>;
ModulesByPath modules_by_path(const torch::nn::Module& network);

/// A module as a recipe names it: the stage that makes its network, and its path in that network.
std::string name_in_recipe(const std::string& stage, const std::string& path);

/// The path in the network of `stage` that a name in a recipe stands for; nullopt if the name
/// belongs to another stage. A * stands for any stage.
std::optional<std::string> path_in_network(const std::string& name, const std::string& stage);

/// The innermost module whose forward the current thread runs; null if none runs.
inline thread_local constinit const torch::nn::Module* running_module = nullptr;

/// Sets the running module to `module` while it lives. It costs two stores.
class [[nodiscard]] ScopedModule {
 public:
  explicit ScopedModule(const torch::nn::Module& module) : before_(running_module) {
    running_module = &module;
  }
  ~ScopedModule() { running_module = before_; }
  ScopedModule(const ScopedModule&) = delete;
  ScopedModule& operator=(const ScopedModule&) = delete;

 private:
  const torch::nn::Module* const before_;
};

/// Makes running_path() know the modules of a network, on the current thread, while it lives. The
/// innermost scope counts. The network must outlive it and keep its modules.
class [[nodiscard]] ScopedModuleNames {
 public:
  /// `prefix` is the network's own path: with "model" its child "head" becomes "model.head".
  ScopedModuleNames(const torch::nn::Module& network, const std::string& prefix);
  ~ScopedModuleNames();
  ScopedModuleNames(const ScopedModuleNames&) = delete;
  ScopedModuleNames& operator=(const ScopedModuleNames&) = delete;

 private:
  const void* const before_;
};

/// The path of the running module; "" if none runs or no ScopedModuleNames knows it.
std::string running_path();

}  // namespace stages
