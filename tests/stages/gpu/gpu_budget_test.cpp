#include <algorithm>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/device.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/memory_budget.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

constexpr std::int64_t kGpuMiB = 1 << 20;
at::Tensor gpu_bytes(std::int64_t count) {
  return torch::empty({count}, at::device(kGpu).dtype(torch::kByte));
}

// Must be the first test in this file, so that nothing has used the GPU before it.
TEST(GpuBudget, AppliesBeforeTheGpuIsUsed) {
  NEEDS_GPU();
  {
    const ScopedMemoryBudget budget(1024 * kGpuMiB, kGpu);
    EXPECT_NO_THROW(gpu_bytes(256 * kGpuMiB));
    EXPECT_THROW(gpu_bytes(1024 * kGpuMiB), c10::OutOfMemoryError) << "the context counts, too";
  }
  EXPECT_NO_THROW(gpu_bytes(1024 * kGpuMiB));
}

TEST(GpuBudget, IsTheMemoryThatOthersLeaveFree) {
  NEEDS_GPU();
  const std::int64_t before = device_memory(kGpu).bytes, all = MemoryMeter(kGpu).available();
  EXPECT_LE(before, all);
  EXPECT_EQ(device_memory(kGpu).name, "the GPU's free memory");
  const at::Tensor own = gpu_bytes(512 * kGpuMiB);
  EXPECT_NEAR(static_cast<double>(device_memory(kGpu).bytes), static_cast<double>(before),
              64.0 * kGpuMiB)
      << "memory held by this process counts as available";
}

TEST(GpuBudget, OutOfMemoryIsRecognized) {
  NEEDS_GPU();
  try {
    gpu_bytes(std::int64_t{1} << 50);
    FAIL() << "a pebibyte was allocated";
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error));
  }
}

// Runs in its own child process: after such an error, a process cannot use the GPU.
TEST(GpuBudgetDeathTest, EndsQuietlyAfterAFatalError) {
  NEEDS_GPU();
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        try {
          const ScopedMemoryBudget budget(1024 * kGpuMiB, kGpu);
          const at::Tensor row = torch::zeros({4}, at::device(kGpu));
          row.index_select(0, torch::full({1}, 9, at::device(kGpu).dtype(torch::kLong))).cpu();
        } catch (const std::exception&) {
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace stages
