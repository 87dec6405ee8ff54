#include "stages/plan/memory_budget.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/memory/policy.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

TEST(MemoryBudget, IsTheSmallerOfTheConfiguredAndAvailableMemory) {
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

TEST(MemoryBudget, ReportsItsSource) {
  const runner::NamedBytes whole{"--budget", 1000};
  MemoryPolicy policy;
  policy.pointer = "/memory";
  EXPECT_EQ(memory_budget(policy, std::nullopt), std::nullopt);
  EXPECT_EQ(memory_budget(policy, whole), whole);
  policy.memory_fraction = 0.5;
  EXPECT_EQ(memory_budget(policy, whole), (runner::NamedBytes{"memory_fraction of --budget", 500}));
  policy.budget = 500;  // not the smaller one
  EXPECT_EQ(memory_budget(policy, whole), (runner::NamedBytes{"memory_fraction of --budget", 500}));
  policy.budget = 499;
  EXPECT_EQ(memory_budget(policy, whole), (runner::NamedBytes{"memory.budget", 499}));
  EXPECT_EQ(memory_budget(policy, std::nullopt), (runner::NamedBytes{"memory.budget", 499}));
}

TEST(MemoryBudget, BudgetCanBeAShareOfTheDevice) {
  const runner::NamedBytes whole{"the machine's memory", 1000};
  MemoryPolicy policy;
  policy.pointer = "/memory";
  policy.budget_share = 0.8;
  EXPECT_EQ(memory_budget(policy, whole),
            (runner::NamedBytes{"memory.budget of the machine's memory", 800}));
  EXPECT_EQ(memory_budget(policy, std::nullopt), std::nullopt);
  policy.memory_fraction = 0.5;
  EXPECT_EQ(memory_budget(policy, whole),
            (runner::NamedBytes{"memory_fraction of the machine's memory", 500}));
}

TEST(MemoryBudget, ReportsAvailableMemoryBelowTheBudget) {
  MemoryPolicy policy;
  policy.pointer = "/memory";
  policy.budget = 8LL << 30;
  EXPECT_EQ(
      memory_budget(policy, runner::NamedBytes{"the control group's limit", 1LL << 30}),
      (runner::NamedBytes{"the control group's limit, which is less than memory.budget, 8.00 GiB",
                          1LL << 30}));
}

TEST(HostMemory, UsesTheControlGroupIfItIsSmaller) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal:       2097152 kB\nMemFree:  1 kB\n");
  EXPECT_EQ(host_memory(root.path()), (runner::NamedBytes{"the machine's memory", 2LL << 30}));
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "536870912\n");
  EXPECT_EQ(host_memory(root.path()),
            (runner::NamedBytes{"the control group's limit", 512LL << 20}));
  root.write("sys/fs/cgroup/job/memory.max", "8589934592\n");  // more than exists
  EXPECT_EQ(host_memory(root.path()), (runner::NamedBytes{"the machine's memory", 2LL << 30}));
}

TEST(HostMemory, IsTheSmallestOverAllRanks) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal:       2097152 kB\n");
  limit_host_memory(4LL << 30);
  EXPECT_EQ(host_memory(root.path()), (runner::NamedBytes{"the machine's memory", 2LL << 30}));
  limit_host_memory(1LL << 30);
  EXPECT_EQ(host_memory(root.path()),
            (runner::NamedBytes{"the memory of the rank that has the least", 1LL << 30}));
  limit_host_memory(INT64_MAX);
  EXPECT_EQ(host_memory(root.path()).bytes, 2LL << 30);
}

TEST(ScopedMemoryBudget, EndsWithItsScopeEvenAfterAnException) {
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

TEST(ScopedMemoryBudget, DoesNothingWithoutACounter) {
  const ScopedMemoryBudget budget(1, c10::kCPU);
  torch::empty({100}, torch::kByte);
}

}  // namespace
}  // namespace stages
