#include "stages/numerics/prepared_network.h"

#include <mutex>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace stages {

namespace {

/// LibTorch keeps the TF32 settings in several variables and refuses to read them while another
/// thread (a certificate's rank) has changed only some of them.
std::mutex changing_tf32;

struct Tf32Settings {
  bool products, convolutions;
};

/// Sets both settings and returns their previous values.
Tf32Settings exchange_tf32(const Tf32Settings& wanted) {
  const std::lock_guard lock(changing_tf32);
  at::Context& context = at::globalContext();
  const Tf32Settings before{context.allowTF32CuBLAS(), context.allowTF32CuDNN()};
  context.setAllowTF32CuBLAS(wanted.products);
  context.setAllowTF32CuDNN(wanted.convolutions);
  return before;
}

thread_local Tf32Settings found_by_thread;

}  // namespace

ScopedTf32::ScopedTf32(bool allow)
    : products_((found_by_thread = exchange_tf32({allow, allow})).products),
      convolutions_(found_by_thread.convolutions) {}

ScopedTf32::~ScopedTf32() { exchange_tf32({products_, convolutions_}); }

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
