#include "stages/tensor/scoped.h"

#include <torch/nn/module.h>

namespace stages {

ScopedEval::ScopedEval(torch::nn::Module& network) {
  network.apply([this](torch::nn::Module& module) {
    was_training_.emplace_back(&module, module.is_training());
  });
  network.eval();
}

ScopedEval::~ScopedEval() {
  // train() reaches down to all children, so a child's own mode is set after its parent's.
  for (const auto& [module, training] : was_training_) module->train(training);
}

}  // namespace stages
