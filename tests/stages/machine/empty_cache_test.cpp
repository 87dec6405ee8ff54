#include "stages/machine/counting_allocator.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/cpu_pool.h"

namespace stages {
namespace {

TEST(EmptyCache, ReturnsTheCachedBytesOfAPool) {
  const CpuPool pool;
  const CountingAllocator counter;
  EXPECT_TRUE(has_cache(at::kCPU));
  const at::Tensor kept = torch::ones({1 << 20});
  torch::ones({1 << 22});
  ASSERT_GT(pool.reserved(), 16 << 20);
  empty_cache(at::kCPU);
  EXPECT_LT(pool.reserved(), 16 << 20);
  EXPECT_GE(pool.reserved(), 4 << 20) << "blocks in use stay";
  EXPECT_EQ(kept.sum().item<float>(), 1 << 20);
}

TEST(EmptyCache, IsANoOpWithoutAPool) {
  EXPECT_FALSE(has_cache(at::kCPU));
  const CountingAllocator counter;
  EXPECT_FALSE(has_cache(at::kCPU)) << "it only counts bytes";
  empty_cache(at::kCPU);
}

}  // namespace
}  // namespace stages
