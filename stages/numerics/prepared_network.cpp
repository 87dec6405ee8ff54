#include "stages/numerics/prepared_network.h"

#include <torch/nn/module.h>
#include <torch/types.h>

namespace stages {

ScopedTf32::ScopedTf32(bool allow)
    : products_(at::globalContext().allowTF32CuBLAS()),
      convolutions_(at::globalContext().allowTF32CuDNN()) {
  at::globalContext().setAllowTF32CuBLAS(allow);
  at::globalContext().setAllowTF32CuDNN(allow);
}

ScopedTf32::~ScopedTf32() {
  at::globalContext().setAllowTF32CuBLAS(products_);
  at::globalContext().setAllowTF32CuDNN(convolutions_);
}

PreparedNetwork::PreparedNetwork(torch::nn::Module& network, const Numerics& numerics,
                                 c10::Device device)
    : network_(network),
      numerics_(numerics),
      device_(device),
      tf32_(numerics.tf32),
      modules_(network, numerics.precision, device) {
  set_layout(network, numerics.layout);
}

Batch PreparedNetwork::placed(const Batch& batch) const {
  return in_layout(batch.to(device_), numerics_.layout);
}

ScopedInference::ScopedInference(const PreparedNetwork& network)
    : eval_(network.module()), precision_(network.precision(), network.device()) {}

}  // namespace stages
