#pragma once

#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace stages {

/// Puts a network and all modules in it into eval mode, and gives each its own mode back at the end
/// of the scope, also when the scope is left by a throw. The network must outlive the guard and
/// keep its modules.
class [[nodiscard]] ScopedEval {
 public:
  explicit ScopedEval(torch::nn::Module& network);
  ~ScopedEval();
  ScopedEval(const ScopedEval&) = delete;
  ScopedEval& operator=(const ScopedEval&) = delete;

 private:
  std::vector<std::pair<torch::nn::Module*, bool>> was_training_;  // parents before their children
};

}  // namespace stages
