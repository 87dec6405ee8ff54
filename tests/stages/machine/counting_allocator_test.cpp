#include "stages/machine/counting_allocator.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(CountingAllocator, CountsExactly) {
  const CountingAllocator counter;
  EXPECT_EQ(counter.allocations(), 0);
  at::Tensor a = torch::empty({1000}, torch::kFloat);
  EXPECT_EQ(counter.live_bytes(), 4000);
  {
    const at::Tensor b = torch::empty({3, 7}, torch::kDouble);
    EXPECT_EQ(counter.live_bytes(), 4168);
  }
  const at::Tensor view = a.view({10, 100}).slice(0, 1, 3);
  view.zero_();
  EXPECT_EQ(counter.live_bytes(), 4000);
  EXPECT_EQ(counter.peak_bytes(), 4168);
  EXPECT_EQ(counter.allocations(), 2);
  const at::Tensor none = torch::empty({0});
  EXPECT_EQ(counter.allocations(), 2);
}

TEST(CountingAllocator, PeakCanBeReset) {
  CountingAllocator counter;
  const at::Tensor kept = torch::empty({100}, torch::kByte);
  torch::empty({1000}, torch::kByte);
  counter.restart_peak();
  EXPECT_EQ(counter.peak_bytes(), 100);
  torch::empty({7}, torch::kByte);
  EXPECT_EQ(counter.peak_bytes(), 107);
}

TEST(CountingAllocator, InnerScopeAlsoCountsForTheOuter) {
  const CountingAllocator outer;
  std::optional<CountingAllocator> inner(std::in_place);
  const at::Tensor a = torch::empty({10}, torch::kByte);
  EXPECT_EQ(inner->live_bytes(), 10);
  EXPECT_GE(outer.live_bytes(), 10);
  EXPECT_EQ(outer.allocations(), 1);
  inner.reset();
  const at::Tensor b = torch::empty({10}, torch::kByte);
  EXPECT_EQ(outer.allocations(), 2);
}

TEST(CountingAllocator, TensorsOutliveTheScopeAndOlderOnesAreNotCounted) {
  std::optional<CountingAllocator> counter(std::in_place);
  at::Tensor young = torch::arange(100);
  counter.reset();
  EXPECT_EQ(young.sum().item<std::int64_t>(), 4950);
  counter.emplace();
  young.reset();
  EXPECT_EQ(counter->live_bytes(), 0);
}

TEST(CountingAllocator, BlocksAreAlignedAndGrow) {
  const CountingAllocator counter;
  at::Tensor a = torch::arange(1, 4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data_ptr()) % 64, 0);
  a.resize_({1000});
  EXPECT_EQ(a[2].item<std::int64_t>(), 3);
  EXPECT_EQ(counter.live_bytes(), 8000);
}

TEST(CountingAllocator, AllThreadsAreCounted) {
  const CountingAllocator counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 1000; ++j) torch::empty({64}, torch::kByte);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.allocations(), 4000);
  EXPECT_EQ(counter.live_bytes(), 0);
  EXPECT_GE(counter.peak_bytes(), 64);
  EXPECT_LE(counter.peak_bytes(), 256);
}

TEST(CountingAllocator, RefusesOnlyTheSelectedBlock) {
  CountingAllocator counter;
  counter.refuse(3);
  const at::Tensor first = torch::empty({10}, torch::kByte), none = torch::empty({0}, torch::kByte),
                   second = torch::empty({10}, torch::kByte);
  EXPECT_TRUE(counter.will_refuse());
  EXPECT_THROW(torch::empty({10}, torch::kByte), c10::OutOfMemoryError);
  EXPECT_FALSE(counter.will_refuse());
  EXPECT_EQ(counter.live_bytes(), 20);
  torch::empty({10}, torch::kByte);
  EXPECT_EQ(counter.allocations(), 3);
  counter.refuse(1);
  counter.refuse(0);
  torch::empty({10}, torch::kByte);
}

std::string refusal_of(std::int64_t bytes) {
  try {
    torch::empty({bytes}, torch::kByte);
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(CountingAllocator, LimitIsExactToTheByte) {
  CountingAllocator counter;
  counter.set_limit(100);
  std::optional<at::Tensor> kept = torch::empty({60}, torch::kByte);
  EXPECT_EQ(refusal_of(41), "out of memory: tried to allocate 41 B while 60 B of 100 B are in use");
  EXPECT_EQ(counter.live_bytes(), 60);
  EXPECT_EQ(counter.peak_bytes(), 60);
  EXPECT_EQ(counter.refusals(), 1);
  EXPECT_EQ(refusal_of(40), "");
  EXPECT_EQ(counter.peak_bytes(), 100);
  kept.reset();
  EXPECT_EQ(refusal_of(100), "");
  EXPECT_EQ(counter.refusals(), 1);
  counter.set_limit({});
  EXPECT_EQ(refusal_of(1000), "");
}

TEST(CountingAllocator, LimitBelowTheLiveBytesFreesNothing) {
  CountingAllocator counter;
  const at::Tensor kept = torch::empty({60}, torch::kByte);
  counter.set_limit(10);
  EXPECT_EQ(refusal_of(1), "out of memory: tried to allocate 1 B while 60 B of 10 B are in use");
  EXPECT_EQ(counter.live_bytes(), 60);
}

TEST(CountingAllocator, RefusedBlockReportsTheLiveBytes) {
  CountingAllocator counter;
  EXPECT_FALSE(counter.take_refused());
  const at::Tensor weights = torch::empty({60}, torch::kByte);
  std::optional<at::Tensor> activation;
  {
    const ScopedPhase phase(StepPhase::kForward);
    activation = torch::empty({30}, torch::kByte);
  }
  counter.set_limit(100);
  {
    const ScopedPhase phase(StepPhase::kBackward);
    EXPECT_NE(refusal_of(11), "");
  }
  const void* const data = activation->data_ptr();
  activation.reset();  // as stack unwinding would
  const auto refused = counter.take_refused();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->tried, 11);
  EXPECT_EQ(refused->live, 90);
  EXPECT_EQ(refused->limit, 100);
  EXPECT_EQ(refused->phase, StepPhase::kBackward);
  ASSERT_EQ(refused->alive.size(), 2);
  EXPECT_EQ(refused->alive[0].data, weights.data_ptr());
  EXPECT_EQ(refused->alive[0].phase, StepPhase::kIdle);
  EXPECT_EQ(refused->alive[1].data, data);
  EXPECT_EQ(refused->alive[1].bytes, 30);
  EXPECT_EQ(refused->alive[1].phase, StepPhase::kForward);
  EXPECT_FALSE(counter.take_refused());
}

TEST(CountingAllocator, OuterLimitAppliesWithinAnInnerScope) {
  CountingAllocator outer;
  outer.set_limit(4096);
  const CountingAllocator inner;
  EXPECT_NE(refusal_of(5000), "");
  EXPECT_EQ(inner.live_bytes(), 0);
  EXPECT_EQ(inner.peak_bytes(), 0);
  EXPECT_EQ(inner.allocations(), 0);
  EXPECT_EQ(outer.live_bytes(), 0);
}

TEST(CountingAllocator, ManyThreadsStayWithinTheLimit) {
  CountingAllocator counter;
  counter.set_limit(256);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        std::vector<at::Tensor> held;
        try {
          for (int k = 0; k < 3; ++k) held.push_back(torch::empty({64}, torch::kByte));
        } catch (const c10::OutOfMemoryError&) {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(counter.peak_bytes(), 256);
  EXPECT_EQ(counter.live_bytes(), 0);
  EXPECT_EQ(counter.refusals(), refused);
}

TEST(CountingAllocator, InnermostScopeIsFound) {
  EXPECT_EQ(CountingAllocator::innermost(), nullptr);
  const CountingAllocator outer;
  EXPECT_EQ(CountingAllocator::innermost(), &outer);
  {
    const CountingAllocator inner;
    EXPECT_EQ(CountingAllocator::innermost(), &inner);
  }
  EXPECT_EQ(CountingAllocator::innermost(), &outer);
}

}  // namespace
}  // namespace stages
