#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernels_on_cpu/device_array.h"
#include "tests/support/kernels_on_cpu/faulty_kernel.h"
#include "tests/support/kernels_on_cpu/launch.h"

namespace {

using kernels_on_cpu::DeviceArray;
using kernels_on_cpu::Order;
using kernels_on_cpu::ScopedSchedule;

constexpr unsigned kBlocks = 3;
constexpr unsigned kElements = kBlocks * kReversed;

/// The numbers 0, 1, 2 and so on.
std::vector<float> counted() {
  std::vector<float> numbers(kElements);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return numbers;
}

/// The fault of reverse_blocks() if its input starts `offset` elements later; empty if there is
/// none.
std::string fault_of(Mistake mistake, std::ptrdiff_t offset = 0) {
  const DeviceArray<float> x("x", counted()), y("y", kElements);
  try {
    reverse_blocks(x.data() + offset, y.data(), kBlocks, mistake);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(KernelsOnCpu, RunEachThreadOfEachBlockInAnyOrder) {
  std::vector<float> expected;
  for (unsigned block = 0; block < kBlocks; ++block) {
    for (unsigned i = kReversed; i > 0; --i)
      expected.push_back(static_cast<float>(block * kReversed + i - 1));
  }
  const DeviceArray<float> x("x", counted());
  for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
    const ScopedSchedule schedule({.blocks = order, .threads = order, .seed = 7});
    const DeviceArray<float> y("y", kElements);
    reverse_blocks(x.data(), y.data(), kBlocks, Mistake::kNone);
    EXPECT_EQ(y.values(), expected);
  }
}

TEST(KernelsOnCpu, IndexOutsideAnArrayIsAFault) {
  EXPECT_EQ(fault_of(Mistake::kReadsBeyondInput),
            "reverse: thread 63 of block 2 reads 4 bytes at byte 768 of x, which has 768");
  EXPECT_EQ(fault_of(Mistake::kNone, -2),
            "reverse: thread 0 of block 0 reads 4 bytes 8 bytes before x");
  EXPECT_EQ(fault_of(Mistake::kReadsBeyondShared),
            "reverse: thread 0 of block 0 reads 4 bytes at byte 256 of part, which has 256");
  const ScopedSchedule backward({.blocks = Order::kBackward, .threads = Order::kBackward});
  EXPECT_EQ(fault_of(Mistake::kWritesBeyondOutput),
            "reverse: thread 63 of block 2 writes 4 bytes at byte 768 of y, which has 768");
  EXPECT_EQ(fault_of(Mistake::kCopiesBeyondInput),
            "reverse: thread 63 of block 2 reads 256 bytes at byte 764 of x, which has 768");
}

TEST(KernelsOnCpu, MemoryThatIsNotOnTheDeviceIsAFault) {
  const std::vector<float> x = counted();
  std::vector<float> y(kElements);
  EXPECT_THROW(reverse_blocks(x.data(), y.data(), kBlocks, Mistake::kNone), std::runtime_error);
}

TEST(KernelsOnCpu, ReadingUnwrittenMemoryIsAFault) {
  EXPECT_EQ(fault_of(Mistake::kReadsOutput),
            "reverse: thread 0 of block 0 reads 4 bytes at byte 0 of y, which nothing has written");
  // Block 0 wrote to this address, but shared memory starts unwritten in every block.
  EXPECT_EQ(
      fault_of(Mistake::kReadsUnwrittenShared),
      "reverse: thread 60 of block 1 reads 4 bytes at byte 12 of part, which nothing has written");
}

TEST(KernelsOnCpu, MissingBarrierIsAFaultInAnyOrder) {
  EXPECT_EQ(
      fault_of(Mistake::kNoBarrier),
      "reverse: thread 0 of block 0 reads 4 bytes at byte 252 of part, which nothing has written");
  // In this order, the result is correct.
  EXPECT_EQ(
      fault_of(Mistake::kNoBarrierBeforeReuse),
      "reverse: thread 63 of block 0 writes 4 bytes at byte 252 of part, which several threads "
      "read without a barrier in between");
  const ScopedSchedule backward({.threads = Order::kBackward});
  EXPECT_EQ(fault_of(Mistake::kNoBarrierBeforeReuse),
            "reverse: thread 0 of block 0 reads 4 bytes at byte 252 of part, which thread 63 wrote "
            "without a barrier in between");
}

TEST(KernelsOnCpu, BarrierThatNotAllThreadsReachIsAFault) {
  EXPECT_EQ(fault_of(Mistake::kReturnsBeforeBarrier),
            "reverse: thread 0 of block 0 waits at the barrier in line 24, but thread 5 has ended");
  EXPECT_EQ(fault_of(Mistake::kTwoBarriers),
            "reverse: thread 0 of block 0 waits at the barrier in line 24, but thread 1 waits at "
            "the barrier in line 23");
}

TEST(KernelsOnCpu, BlocksThatShareAnElementAreAFault) {
  EXPECT_EQ(fault_of(Mistake::kBlocksWriteOneElement),
            "reverse: thread 0 of block 1 writes 4 bytes at byte 0 of y, which block 0 wrote in "
            "the same launch");
  EXPECT_EQ(fault_of(Mistake::kBlocksReadOneElement),
            "reverse: thread 0 of block 1 reads 4 bytes at byte 0 of y, which block 0 wrote in "
            "the same launch");
}

TEST(KernelsOnCpu, EmptyGridIsRejected) {
  EXPECT_THROW(reverse_blocks(nullptr, nullptr, 0, Mistake::kNone), std::runtime_error);
}

}  // namespace
