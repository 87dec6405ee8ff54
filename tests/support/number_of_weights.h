#pragma once

#include <cstdint>

#include <torch/nn/module.h>

namespace stages {

inline std::int64_t number_of_weights(const torch::nn::Module& network) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : network.parameters()) count += parameter.numel();
  return count;
}

}  // namespace stages
