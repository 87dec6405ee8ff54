#include "stages/machine/memory_meter.h"

#include <fstream>
#include <memory>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

TEST(MemoryMeter, UsesTheResidentSetWithoutACounter) {
  MemoryMeter meter(c10::kCPU);
  meter.peak_since_last();
  const auto before = meter.in_use();
  {
    constexpr std::size_t kSize = 64 << 20;
    const auto block =
        std::make_unique<volatile char[]>(kSize);  // volatile: the pages must be touched
    for (std::size_t i = 0; i < kSize; i += 4096) block[i] = 1;
  }
  EXPECT_GT(before, 0);
  EXPECT_GE(meter.peak_since_last(), before + (60 << 20));
}

TEST(MemoryMeter, BudgetIsAtMostTheMachineMemory) {
  const auto budget = MemoryMeter(c10::kCPU).budget();
  EXPECT_GT(budget, 0);
  EXPECT_LE(budget, kilobytes_field("/proc/meminfo", "MemTotal"));
}

TEST(MemoryMeter, FieldIsFoundByItsFullName) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "status") << "VmHWMX:\t1 kB\nVmHWM:\t   12 kB\n";
  EXPECT_EQ(kilobytes_field(folder.path() / "status", "VmHWM"), 12 * 1024);
  EXPECT_EQ(kilobytes_field(folder.path() / "status", "VmRSS"), 0);
  EXPECT_EQ(kilobytes_field(folder.path() / "absent", "VmHWM"), 0);
}

TEST(MemoryMeter, CountsTensorsExactlyOnACpu) {
  CountingAllocator counter;
  counter.set_limit(1 << 20);
  MemoryMeter meter(c10::kCPU);
  const at::Tensor kept = torch::empty({1000}, torch::kByte);
  torch::empty({5000}, torch::kByte);
  EXPECT_EQ(meter.in_use(), 1000);
  EXPECT_EQ(meter.use().allocated, 1000);
  EXPECT_GT(meter.use().reserved, 1 << 20) << "the process";
  EXPECT_EQ(meter.use().retries, 0);
  EXPECT_EQ(meter.budget(), 1 << 20);
  EXPECT_THROW(torch::empty({1 << 20}, torch::kByte), c10::OutOfMemoryError);
  EXPECT_EQ(meter.use().retries, 1);
  EXPECT_EQ(meter.peak_since_last(), 6000);
  EXPECT_EQ(meter.peak_since_last(), 1000);
}

TEST(MemoryMeter, ReportsTheReservedBytesOfAPool) {
  CpuPool pool;
  CountingAllocator counter;
  const MemoryMeter meter(c10::kCPU);
  counter.set_limit(8 << 20);
  at::Tensor hole = torch::empty({4 << 20}, torch::kByte);
  const at::Tensor kept = torch::empty({2 << 20}, torch::kByte);
  hole.reset();
  EXPECT_EQ(meter.use().allocated, 2 << 20);
  EXPECT_EQ(meter.use().reserved, pool.reserved());
  EXPECT_GT(meter.use().reserved, 6 << 20);
  EXPECT_EQ(meter.budget(), 8 << 20);
  EXPECT_EQ(torch::empty({5 << 20}, torch::kByte).numel(), 5 << 20) << "the hole was returned";
  EXPECT_THROW(torch::empty({7 << 20}, torch::kByte), c10::OutOfMemoryError);
  EXPECT_EQ(meter.use().retries, 2);
}

TEST(MemoryMeter, EachMeterHasItsOwnPeak) {
  const CountingAllocator counter;
  MemoryMeter node(c10::kCPU), step(c10::kCPU);
  torch::empty({100}, torch::kByte);
  EXPECT_EQ(step.peak_since_last(), 100);
  torch::empty({70}, torch::kByte);
  EXPECT_EQ(step.peak_since_last(), 70);
  EXPECT_EQ(node.peak_since_last(), 100);
  EXPECT_EQ(node.peak_since_last(), 0);
  EXPECT_EQ(counter.peak_bytes(), 100) << "no meter resets it";
}

}  // namespace
}  // namespace stages
