#include "stages/plan/summarize.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/block_pool.h"
#include "stages/plan/meta_kernels.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

using runner::NamedBytes;
using testing::ElementsAre;
using testing::SizeIs;

at::Tensor bytes(std::int64_t count) {
  return torch::empty({count}, at::TensorOptions(at::kMeta).dtype(at::kByte));
}

class SummarizeTest : public testing::Test {
 protected:
  SummarizeTest() { register_meta_kernels(); }
  MemoryTrace trace{{}};
};

TEST_F(SummarizeTest, ReportsThePeakAndItsOwners) {
  const at::Tensor weight = bytes(100);
  trace.own(weight, Owner::kParameter, "weight");
  at::Tensor first = bytes(40);
  {
    const ScopedPhase phase(StepPhase::kForward);
    const at::Tensor second = bytes(30);
  }
  first.reset();
  const at::Tensor later = bytes(50);
  const runner::MemoryPlan plan = summarize(trace, 0, {}, {});
  EXPECT_EQ(plan.live, 170);
  EXPECT_EQ(plan.reserved, 4096) << "they fit in one page";
  EXPECT_EQ(plan.reserved, 4096);
  EXPECT_EQ(plan.peak_phase, "forward");
  EXPECT_EQ(plan.peak_operation, "aten::empty");
  EXPECT_THAT(plan.owners, ElementsAre(NamedBytes{"parameter", 100}, NamedBytes{"transient", 70}));
  EXPECT_THAT(plan.curve, ElementsAre(100, 140, 170, 140, 100, 150));
  EXPECT_THAT(plan.phases, ElementsAre(runner::PhaseMark{"forward", 2}));
}

TEST_F(SummarizeTest, OlderStoragesCountAsAlive) {
  at::Tensor early = bytes(1000);
  early.reset();
  const at::Tensor kept = bytes(10);
  const std::size_t first = trace.events().size();
  const at::Tensor late = bytes(5);
  const runner::MemoryPlan plan = summarize(trace, first, {}, {});
  EXPECT_EQ(plan.live, 15);
  EXPECT_THAT(plan.curve, ElementsAre(15));
  EXPECT_THAT(plan.largest, SizeIs(2));
}

TEST_F(SummarizeTest, PeakWithoutEventsIsTheLiveBytes) {
  const at::Tensor kept = bytes(10);
  const runner::MemoryPlan plan = summarize(trace, trace.events().size(), {}, {});
  EXPECT_EQ(plan.live, 10);
  EXPECT_THAT(plan.largest, SizeIs(1));
  EXPECT_EQ(plan.peak_phase, "");
}

TEST_F(SummarizeTest, InitialBytesMayBeThePeak) {
  at::Tensor early = bytes(1000);
  const std::size_t first = trace.events().size();
  early.reset();
  const at::Tensor late = bytes(5);
  const runner::MemoryPlan plan = summarize(trace, first, {}, {});
  EXPECT_EQ(plan.live, 1000);
  EXPECT_EQ(plan.peak_operation, "");
  ASSERT_THAT(plan.largest, SizeIs(1));
  EXPECT_EQ(plan.largest[0].bytes, 1000);
}

TEST_F(SummarizeTest, TenLargestTensorsAreSortedBySize) {
  std::vector<at::Tensor> kept;
  for (std::int64_t size = 1; size <= 12; ++size) kept.push_back(bytes(size * 7));
  trace.own(kept[11].view({12, 7}), Owner::kBuffer, "last");
  const runner::MemoryPlan plan = summarize(trace, 0, {}, {});
  ASSERT_THAT(plan.largest, SizeIs(10));
  EXPECT_EQ(plan.largest[0], (runner::AliveTensor{.owner = "buffer",
                                                  .name = "last",
                                                  .operation = "aten::empty",
                                                  .shape = {12, 7},
                                                  .dtype = "uint8",
                                                  .bytes = 84}));
  EXPECT_EQ(plan.largest[9].bytes, 21);
}

TEST_F(SummarizeTest, LongCurveKeepsThePeak) {
  for (int i = 0; i < 5000; ++i) bytes(i == 3333 ? 99 : 3);
  const runner::MemoryPlan plan = summarize(trace, 0, {}, {});
  EXPECT_THAT(plan.curve, SizeIs(512));
  EXPECT_EQ(*std::max_element(plan.curve.begin(), plan.curve.end()), 99);
  EXPECT_EQ(plan.live, 99);
}

TEST_F(SummarizeTest, FlopsCountOnlyTheStep) {
  const at::Tensor x = torch::empty({10, 8}, at::kMeta), w = torch::empty({8, 16}, at::kMeta);
  at::Tensor y = x.mm(w);
  const std::size_t first = trace.events().size();
  y = x.mm(w);
  y = x.mm(w);
  EXPECT_EQ(summarize(trace, first, {}, {}).flops, 2 * 2560);
}

TEST_F(SummarizeTest, GpuPlanReservesMoreThanItsLiveBytes) {
  const at::Tensor kept = bytes(100);
  const Backend backend{.device = at::kCUDA, .model = "NVIDIA L4"};
  const runner::MemoryPlan plan = summarize(trace, 0, backend, {});
  EXPECT_EQ(plan.live, 100);
  EXPECT_EQ(plan.reserved, 2 << 20);
  std::int64_t beside = 0;
  for (const NamedBytes& term : backend_terms(backend)) beside += term.bytes;
  EXPECT_GT(beside, 0);
  for (const NamedBytes& term : plan.terms)
    beside += term.name == kMarginTerm || term.name == kKernelScratchTerm ? term.bytes : 0;
  EXPECT_EQ(plan.needed, plan.reserved + beside);  // no kernel runs
  EXPECT_EQ(plan.terms.back().name, "allocator_rounding");
  EXPECT_EQ(plan.terms.back().bytes, (2 << 20) - 100);
}

TEST_F(SummarizeTest, CpuPoolIsReplayed) {
  at::Tensor hole = bytes(8 << 20);
  const at::Tensor kept = bytes(4 << 20);
  hole.reset();
  const at::Tensor larger = bytes(9 << 20), into_the_hole = bytes(7 << 20);
  const runner::MemoryPlan plan = summarize(trace, 0, {}, {});
  EXPECT_EQ(plan.live, 20 << 20);
  EXPECT_EQ(plan.reserved, (21 << 20) + 4096)
      << "the hole is too small for one block and fits the other";
}

TEST_F(SummarizeTest, CpuPlanHasASmallMargin) {
  const at::Tensor kept = bytes(8 << 20);
  const runner::MemoryPlan plan = summarize(trace, 0, {}, {});
  ASSERT_FALSE(plan.terms.empty());
  EXPECT_EQ(plan.terms.front().name, kMarginTerm);
  EXPECT_EQ(plan.terms.front().bytes, plan.reserved / 200 + BlockPool::kSmall);
  EXPECT_EQ(plan.needed, plan.reserved + plan.terms.front().bytes);
  const at::Tensor half = torch::empty({4}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16));
  trace.own(half, Owner::kInput, "half");
  const runner::MemoryPlan of_halves = summarize(trace, 0, {}, {});
  EXPECT_EQ(of_halves.terms.front().bytes, of_halves.reserved / 100 + BlockPool::kSmall)
      << "the bounds for half-precision kernels are less tight";
}

TEST_F(SummarizeTest, KernelScratchIsPlannedIfItRaisesThePeak) {
  const auto plan_with = [&](std::int64_t bytes_beside) {
    const std::size_t first = trace.events().size();
    const at::Tensor x = torch::empty({8, 64, 14, 14}, at::TensorOptions(at::kMeta))
                             .requires_grad_(true),
                     weight = torch::empty({64, 64, 3, 3}, at::TensorOptions(at::kMeta));
    torch::conv2d(x, weight, {}, 2, 1).sum().backward();
    if (bytes_beside > 0) bytes(bytes_beside);
    return summarize(trace, first, {.threads = 1}, {});
  };
  const runner::MemoryPlan alone = plan_with(0), beside_more = plan_with(64 << 20);
  EXPECT_EQ(alone.terms[1].name, kKernelScratchTerm);
  EXPECT_GT(alone.terms[1].bytes, alone.reserved / 2) << "copies made by a direct kernel";
  EXPECT_EQ(alone.needed,
            alone.live + alone.terms[0].bytes + alone.terms[1].bytes + alone.terms[2].bytes);
  EXPECT_LT(beside_more.terms[1].bytes, alone.terms[1].bytes) << "the peak is elsewhere";
}

TEST_F(SummarizeTest, ExpandableSegmentsReserveLessForGrowingTensors) {
  for (std::int64_t mib = 30; mib < 60; mib += 4) bytes(mib << 20);
  const Backend backend{.device = at::kCUDA, .model = {}};
  EXPECT_LT(summarize(trace, 0, backend, {.expandable_segments = true}).reserved,
            summarize(trace, 0, backend, {.expandable_segments = false}).reserved);
}

TEST_F(SummarizeTest, CpuTermsAreListed) {
  TowerRun run({.batch = 2}, at::kMeta);
  run.step();
  const runner::MemoryPlan plan = summarize(trace, 0, {.threads = 1}, {});
  ASSERT_THAT(plan.terms, SizeIs(3));
  EXPECT_EQ(plan.terms[0].name, kMarginTerm);
  EXPECT_EQ(plan.terms[1].name, kKernelScratchTerm);
  EXPECT_EQ(plan.terms[1].note,
            "upper bound on the memory of kernels on any processor, with 1 thread");
  EXPECT_EQ(plan.terms[2].name, "allocator_rounding");
  EXPECT_EQ(plan.live + plan.terms[0].bytes + plan.terms[1].bytes + plan.terms[2].bytes,
            plan.needed);
}

TEST_F(SummarizeTest, KernelScratchCountsAtItsPeakTogetherWithLiveTensors) {
  const at::Tensor weight = bytes(1 << 20);
  { const at::Tensor other = bytes(3 << 20); }
  {
    const at::Tensor own = bytes(4 << 20);
    mark_scratch(own);
  }
  const runner::MemoryPlan plan = summarize(trace, 0, {.threads = 1}, {});
  EXPECT_EQ(plan.live, 4 << 20);
  EXPECT_EQ(plan.terms[1].bytes, 1 << 20) << "5 MiB with the weight, instead of 4";
}

TEST(BackendTerms, EachHasASource) {
  for (const NamedBytes& term : backend_terms({.device = at::kCUDA, .model = "NVIDIA L4"}))
    EXPECT_NE(term.note, "");
  EXPECT_THAT(backend_terms({.device = at::kCPU, .model = {}}), testing::IsEmpty());
}

}  // namespace
}  // namespace stages
