#include "stages/plan/step_profile.h"

#include <gmock/gmock.h>

namespace stages {
namespace {

constexpr StepWork kCompute = {.flops = 1e12}, kMemory = {.traffic = 1e9},
                   kLaunches = {.operations = 1e6}, kCopies = {.moved = 1e9};

double on_cpu(const StepWork& work, int threads) {
  return predicted_seconds(work, {.device = at::kCPU, .threads = threads});
}

double on_gpu(const StepWork& work) {
  return predicted_seconds(work, {.device = at::kCUDA, .threads = 1});
}

TEST(TimeModel, ThreadsShareTheComputation) {
  EXPECT_DOUBLE_EQ(on_cpu(kCompute, 16), on_cpu(kCompute, 1) / 16);
  EXPECT_DOUBLE_EQ(on_cpu(kCompute, 0), on_cpu(kCompute, 1)) << "there is at least one thread";
}

TEST(TimeModel, FewThreadsSaturateMemoryBandwidth) {
  EXPECT_DOUBLE_EQ(on_cpu(kMemory, 2), on_cpu(kMemory, 1) / 2);
  EXPECT_DOUBLE_EQ(on_cpu(kMemory, 16), on_cpu(kMemory, 4));
}

TEST(TimeModel, OperationsAreLaunchedSequentially) {
  EXPECT_GT(on_cpu(kLaunches, 1), 0);
  EXPECT_DOUBLE_EQ(on_cpu(kLaunches, 16), on_cpu(kLaunches, 1));
}

TEST(TimeModel, TimesAreAdded) {
  const StepWork all{.flops = 1e12, .traffic = 1e9, .operations = 1e6, .moved = 1e9};
  EXPECT_DOUBLE_EQ(on_cpu(all, 2), on_cpu(kCompute, 2) + on_cpu(kMemory, 2) + on_cpu(kLaunches, 2));
  EXPECT_DOUBLE_EQ(on_gpu(all),
                   on_gpu(kCompute) + on_gpu(kMemory) + on_gpu(kLaunches) + on_gpu(kCopies));
}

TEST(TimeModel, CopiesTakeTimeOnlyOnAGpu) {
  EXPECT_GT(on_gpu(kCopies), on_gpu(kMemory));
  EXPECT_EQ(on_cpu(kCopies, 1), 0);
}

TEST(TimeModel, GpuComputesFasterThanItLaunches) {
  EXPECT_LT(on_gpu(kCompute), on_cpu(kCompute, 64));
  EXPECT_LT(on_gpu(kMemory), on_cpu(kMemory, 64));
  EXPECT_GT(on_gpu(kLaunches), on_cpu(kLaunches, 64));
}

TEST(TimeModel, HasAVersionForTheRecord) { EXPECT_EQ(time_model_version(), "time-2"); }

}  // namespace
}  // namespace stages
