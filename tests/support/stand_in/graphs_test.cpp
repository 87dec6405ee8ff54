// Work that the stand-in records and replays.

#include "tests/support/stand_in/graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/faults.h"

namespace stand_in {
namespace {

using stages::gpu::capture;

const at::Device kCard(at::kCUDA, 0);
constexpr std::int64_t kLarge = 64 << 20;

at::Tensor numbers(double value) { return at::full({3}, value, at::device(kCard)); }
std::int64_t reserved() { return stages::MemoryMeter(kCard).use().reserved; }

TEST(Graphs, RecordedWorkRunsOnlyWhenItIsReplayed) {
  const at::Tensor x = numbers(2), sum = numbers(0);
  at::Tensor square;
  const auto graph = capture(kCard, [&] {
    square = x * x;
    sum.add_(square);
  });
  EXPECT_EQ(sum.cpu()[0].item<float>(), 0);
  for (const double value : {3.0, 5.0}) {
    x.fill_(value);
    graph->replay();
    EXPECT_EQ(square.cpu()[0].item<float>(), value * value);
  }
  EXPECT_EQ(sum.cpu()[0].item<float>(), 9 + 25);
}

TEST(Graphs, BackwardPassIsRecordedWithTheForwardPass) {
  const at::Tensor x = numbers(2), weight = numbers(3).requires_grad_();
  weight.mutable_grad() = numbers(0);
  const auto graph = capture(kCard, [&] { (x * weight).softmax(0).square().sum().backward(); });
  graph->replay();
  const at::Tensor replayed = weight.grad().cpu();
  weight.mutable_grad() = numbers(0);
  (x * weight).softmax(0).square().sum().backward();
  EXPECT_TRUE(replayed.equal(weight.grad().cpu()));
}

TEST(Graphs, CopiesAreMadeWhenTheyAreRecorded) {
  const at::Tensor places = at::arange(3, at::device(kCard)),
                   values = at::eye(3, at::device(kCard));
  at::Tensor loss;
  const auto graph = capture(kCard, [&] {
    loss = at::nll_loss(values, places.clone(), {}, at::Reduction::Sum);  // checks its labels
  });
  graph->replay();
  EXPECT_EQ(loss.cpu().item<float>(), -3);
}

TEST(Graphs, ReplayIsOneLaunch) {
  const at::Tensor x = numbers(2);
  const Counts before = counts();
  const auto graph = capture(kCard, [&] { x.mul_(2).add_(1).sqrt_(); });
  EXPECT_EQ((counts() - before).launches, 0);
  graph->replay();
  EXPECT_EQ((counts() - before).launches, 1);
}

TEST(Graphs, PoolStaysReservedWhileTheGraphLives) {
  const auto bytes = [] { return at::empty({kLarge}, at::device(kCard).dtype(at::kByte)); };
  stages::empty_cache(kCard);
  const std::int64_t before = reserved();
  auto graph = capture(kCard, [&] {
    bytes().fill_(1);
    bytes().fill_(2);  // in the same memory
  });
  stages::empty_cache(kCard);
  EXPECT_EQ(reserved(), before + kLarge);
  const at::Tensor other = bytes();
  EXPECT_EQ(reserved(), before + 2 * kLarge) << "no other work uses the pool";
  graph.reset();
  stages::empty_cache(kCard);
  EXPECT_EQ(reserved(), before + kLarge);
}

TEST(Graphs, WaitingAndCopyingToTheHostAreRefused) {
  const at::Tensor x = numbers(2);
  for (const auto& work : {std::function<void()>([&] { x.sum().item<float>(); }),
                           std::function<void()>([&] { x.to(at::kCPU, /*non_blocking=*/true); }),
                           std::function<void()>([&] { x.add_(at::ones({3}).to(kCard)); }),
                           std::function<void()>([&] { x.nonzero(); })})
    EXPECT_THROW(capture(kCard, work), c10::Error);
  EXPECT_EQ(x.sum().item<float>(), 6) << "afterward, everything is as before";
}

TEST(Graphs, MemoryThatHasBeenFreedIsAFault) {
  at::Tensor x = numbers(2);
  const auto graph = capture(kCard, [&] { x.add_(1); });
  x.reset();
  graph->replay();
  EXPECT_THAT(take_faults(), testing::ElementsAre("a graph uses memory that has been freed"));
}

}  // namespace
}  // namespace stand_in
