#include "stages/model/frozen_base.h"

#include <torch/nn/module.h>

namespace stages {

void FrozenBase::freeze(const torch::nn::Module& network, std::string base) {
  base_ = std::move(base);
  base_weights_.clear();
  for (const auto& item : network.named_parameters()) {
    if (!item.value().requires_grad()) base_weights_.insert(item.key());
  }
}

}  // namespace stages
