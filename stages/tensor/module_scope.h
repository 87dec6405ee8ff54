#pragma once

#include <string>

namespace torch::nn {
class Module;
}

namespace stages {

/// The module whose forward the current thread is in, the innermost; null outside of all.
inline thread_local constinit const torch::nn::Module* running_module = nullptr;

/// Says that `module` runs as long as it lives. It costs two stores.
class [[nodiscard]] ScopedModule {
 public:
  explicit ScopedModule(const torch::nn::Module& module) : before_(running_module) { running_module = &module; }
  ~ScopedModule() { running_module = before_; }
  ScopedModule(const ScopedModule&) = delete;
  ScopedModule& operator=(const ScopedModule&) = delete;

 private:
  const torch::nn::Module* const before_;
};

/// Makes running_path() know the modules of a network as long as it lives, to the current thread. The inner one
/// counts. The network must outlive it and keep its modules.
class [[nodiscard]] ScopedModuleNames {
 public:
  /// `prefix` is the network's own path: "model" makes its child "head" "model.head".
  ScopedModuleNames(const torch::nn::Module& network, const std::string& prefix);
  ~ScopedModuleNames();
  ScopedModuleNames(const ScopedModuleNames&) = delete;
  ScopedModuleNames& operator=(const ScopedModuleNames&) = delete;

 private:
  const void* const before_;
};

/// The path of the running module; "" where none runs or no ScopedModuleNames knows it.
std::string running_path();

}  // namespace stages
