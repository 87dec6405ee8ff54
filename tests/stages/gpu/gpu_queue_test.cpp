// Checks that the host does not wait for a GPU unnecessarily.

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/machine/device.h"
#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

bool is_busy() {
  const c10::impl::VirtualGuardImpl gpu(at::kCUDA);
  return !gpu.queryStream(gpu.getStream(kGpu));
}

/// Keeps the GPU busy for some seconds. A stand-in is busy until the host waits.
void keep_busy() {
  static const std::int64_t size = gpu_model(kGpu) == "stand-in" ? 8 : 8192;
  static const at::Tensor matrix =
      torch::ones({size, size}, at::device(kGpu).dtype(torch::kDouble));
  torch::cuda::synchronize();
  at::Tensor product = torch::empty_like(matrix);
  for (int i = 0; i < 40; ++i) at::mm_out(product, matrix, matrix);
}

TEST(GpuQueue, BatchIsCopiedWithoutWaiting) {
  NEEDS_GPU();
  const Batch batch({{"image", torch::rand({64, 3, 32, 32})}, {"label", torch::arange(64)}}, 64);
  batch.to(kGpu);  // allocating pinned memory waits the first time
  keep_busy();
  ASSERT_TRUE(is_busy());
  const Batch sent = batch.to(kGpu);
  EXPECT_TRUE(is_busy());
  EXPECT_EQ(sent["image"].device(), kGpu);
  EXPECT_TRUE(sent["image"].cpu().equal(batch["image"]));
  EXPECT_TRUE(sent["label"].cpu().equal(batch["label"]));
}

TEST(GpuQueue, DropoutScopeIsSetUpWithoutWaiting) {
  NEEDS_GPU();
  torch::nn::Module network;
  network.register_module("linear", torch::nn::Linear(4, 4));
  network.register_module("dropout", std::make_shared<Dropout>(0.5));
  network.to(kGpu);
  { const ScopedDropout first(network, {1, 1}, std::vector<std::int64_t>{0, 1, 2}); }
  keep_busy();
  ASSERT_TRUE(is_busy());
  const ScopedDropout again(network, {1, 2}, std::vector<std::int64_t>{0, 1, 2});
  EXPECT_TRUE(is_busy());
}

}  // namespace
}  // namespace stages
