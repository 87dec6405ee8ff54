#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace stages {

/// All modules of a network with their paths. The network itself comes first, with the path "".
using ModulesByPath = std::vector<std::pair<std::string, const torch::nn::Module*>>;
ModulesByPath modules_by_path(const torch::nn::Module& network);

/// Returns the name of a module in a recipe: the stage that creates its network, and its path in
/// that network.
std::string name_in_recipe(const std::string& stage, const std::string& path);

/// Returns the module path in the network of `stage` for a name in a recipe; nullopt if the name
/// belongs to another stage. A * stands for any stage.
std::optional<std::string> path_in_network(const std::string& name, const std::string& stage);

/// The innermost module with a forward() that the current thread is running; null if there is none.
inline thread_local constinit const torch::nn::Module* running_module = nullptr;

/// Sets the running module to `module` for the lifetime of this object. Costs two stores.
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

/// Registers the modules of a network with running_path(), on the current thread, for the lifetime
/// of this object. The innermost scope takes precedence. The network must outlive the scope and
/// keep its modules.
class [[nodiscard]] ScopedModuleNames {
 public:
  /// `prefix` is the path of the network itself: with "model", its child "head" becomes
  /// "model.head".
  ScopedModuleNames(const torch::nn::Module& network, const std::string& prefix);
  ~ScopedModuleNames();
  ScopedModuleNames(const ScopedModuleNames&) = delete;
  ScopedModuleNames& operator=(const ScopedModuleNames&) = delete;

 private:
  const void* const before_;
};

/// Returns the path of the running module; "" if no module is running or no ScopedModuleNames
/// includes it.
std::string running_path();

}  // namespace stages
