#include "stages/memory/memory_budget.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "stages/memory/policy.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"

namespace stages {
namespace {

TEST(MemoryBudget, IsTheSmallerOfTheTwo) {
  const std::int64_t all = MemoryMeter(c10::kCPU).available();
  MemoryPolicy policy;
  EXPECT_EQ(memory_budget(policy, c10::kCPU), all);
  policy.budget = 1 << 20;
  EXPECT_EQ(memory_budget(policy, c10::kCPU), 1 << 20);
  policy.budget = 2 * all;
  EXPECT_EQ(memory_budget(policy, c10::kCPU), all);
  policy.memory_fraction = 0.5;
  EXPECT_EQ(memory_budget(policy, c10::kCPU), all / 2);
}

TEST(ScopedMemoryBudget, EndsWithItsScopeAlsoByAThrow) {
  CountingAllocator counter;
  counter.set_limit(1000);
  EXPECT_THROW(
      {
        const ScopedMemoryBudget budget(100, c10::kCPU);
        EXPECT_EQ(counter.limit(), 100);
        torch::empty({101}, torch::kByte);
      },
      c10::OutOfMemoryError);
  EXPECT_EQ(counter.limit(), 1000);
}

TEST(ScopedMemoryBudget, LimitsNothingWhereNobodyCounts) {
  const ScopedMemoryBudget budget(1, c10::kCPU);
  torch::empty({100}, torch::kByte);
}

}  // namespace
}  // namespace stages
