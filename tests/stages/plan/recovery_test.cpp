#include "stages/plan/recovery.h"

#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/counting_allocator.h"
#include "stages/tensor/step_phase.h"
#include "tests/support/recording_context.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Tried {
  std::vector<std::int64_t> sizes;  // the sizes that were run
  std::string error;
};

class RowsAtOnceTest : public testing::Test {
 protected:
  RowsAtOnceTest() { policy_.recovery.max_retries.reset(); }
  /// Runs `units` with memory for at most `fitting` at once.
  Tried run(std::int64_t units, std::int64_t fitting) {
    Tried tried;
    try {
      rows_.run(units, [&](std::int64_t at_once) {
        tried.sizes.push_back(at_once);
        if (at_once > fitting) throw std::bad_alloc();
      });
    } catch (const std::exception& error) {
      tried.error = error.what();
    }
    return tried;
  }
  MemoryPolicy policy_;
  RecordingContext context_;
  RowsAtOnce rows_{policy_, at::kCPU, "evaluation", context_};
};

TEST_F(RowsAtOnceTest, AllRunAtOnceIfTheyFit) {
  EXPECT_THAT(run(64, 64).sizes, ElementsAre(64));
  EXPECT_THAT(context_.said, IsEmpty());
}

TEST_F(RowsAtOnceTest, AreRetriedUnchangedThenHalved) {
  const Tried tried = run(64, 20);
  EXPECT_EQ(tried.error, "");
  EXPECT_THAT(tried.sizes, ElementsAre(64, 64, 32, 16));
  EXPECT_THAT(context_.said,
              ElementsAre("evaluation: out of memory: repeating 64 rows",
                          "evaluation: out of memory: repeating 64 rows, 32 rows at a time",
                          "evaluation: out of memory: repeating 64 rows, 16 rows at a time"));
  ASSERT_EQ(context_.recoveries.size(), 3);
  EXPECT_EQ(context_.recoveries[0].from, context_.recoveries[0].to);
  EXPECT_EQ(context_.recoveries[2].from, "32 rows");
  EXPECT_EQ(context_.recoveries[2].to, "16 rows");
}

TEST_F(RowsAtOnceTest, FittingSizeIsKeptForLaterBatches) {
  run(64, 20);
  EXPECT_THAT(run(64, 20).sizes, ElementsAre(16));
  EXPECT_THAT(run(10, 20).sizes, ElementsAre(10));
}

TEST_F(RowsAtOnceTest, AreHalvedDownToOneBeforeTheErrorIsThrown) {
  const Tried tried = run(5, 0);
  EXPECT_THAT(tried.sizes, ElementsAre(5, 5, 3, 2, 1));
  EXPECT_EQ(tried.error, std::bad_alloc().what());
}

TEST_F(RowsAtOnceTest, MinimumIsRespected) {
  policy_.min_micro_batch = 4;
  EXPECT_THAT(run(16, 0).sizes, ElementsAre(16, 16, 8, 4));
  EXPECT_THAT(run(3, 0).sizes, ElementsAre(3, 3)) << "a batch below the minimum stays as it is";
}

TEST_F(RowsAtOnceTest, RetriesAreCountedForEachBatch) {
  policy_.recovery.max_retries = 2;
  EXPECT_NE(run(64, 16).error, "");
  EXPECT_THAT(run(64, 16).sizes, ElementsAre(32, 32, 16));
}

TEST_F(RowsAtOnceTest, NothingIsRepeatedWithoutRetries) {
  policy_.recovery.max_retries = 0;
  EXPECT_THAT(run(64, 0).sizes, ElementsAre(64));
  EXPECT_THAT(context_.said, IsEmpty());
}

TEST_F(RowsAtOnceTest, OtherErrorsAreNotRepeated) {
  int calls = 0;
  EXPECT_THROW(rows_.run(8,
                         [&](std::int64_t) {
                           ++calls;
                           throw std::runtime_error("broken");
                         }),
               std::runtime_error);
  EXPECT_EQ(calls, 1);
}

TEST_F(RowsAtOnceTest, ReportsTheRequestedBytes) {
  CountingAllocator counter;
  counter.set_limit(1 << 20);
  bool was_refused = false;
  rows_.run(1, [&](std::int64_t) {
    if (std::exchange(was_refused, true)) return;
    const ScopedPhase phase(StepPhase::kEvaluate);
    const at::Tensor half = torch::empty({512 << 10}, torch::kByte);
    torch::empty({1 << 20}, torch::kByte);
  });
  EXPECT_THAT(context_.said,
              ElementsAre("evaluation: out of memory in phase 'evaluate' (1.0 MiB were requested "
                          "while 512 KiB of 1.0 MiB were in use): repeating 1 row"));
  ASSERT_EQ(context_.recoveries.size(), 1);
  EXPECT_EQ(context_.recoveries[0].tried, 1 << 20);
  EXPECT_EQ(context_.recoveries[0].taken, 512 << 10);
  EXPECT_EQ(context_.recoveries[0].limit, 1 << 20);
  EXPECT_FALSE(counter.take_refused()) << "the refusal is forgotten";
}

TEST(DoWithRetry, RepeatsTheWorkOnce) {
  MemoryPolicy policy;
  policy.recovery.max_retries = 1;
  RecordingContext context;
  int calls = 0;
  const auto fail_once = [&] {
    if (++calls == 1) throw std::bad_alloc();
  };
  do_with_retry(policy, at::kCPU, "saving a checkpoint", context, fail_once);
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(context.said, ElementsAre("saving a checkpoint: out of memory: repeated"));
  EXPECT_THROW(do_with_retry(policy, at::kCPU, "saving", context, [] { throw std::bad_alloc(); }),
               std::bad_alloc);
  policy.recovery.max_retries = 0;
  calls = 0;
  EXPECT_THROW(do_with_retry(policy, at::kCPU, "saving", context, fail_once), std::bad_alloc);
}

const at::Device kGpu(at::kCUDA, 0);

TEST(OtherDevices, FollowThePolicyOrderAndExcludeTheCurrentDevice) {
  MemoryPolicy policy;
  EXPECT_THAT(other_devices(policy, kGpu), IsEmpty());
  policy.recovery.on_oom = {OnOom::kReplan, OnOom::kGpu, OnOom::kCpu, OnOom::kStop};
  EXPECT_THAT(other_devices(policy, kGpu), ElementsAre("gpu", "cpu"));
  EXPECT_THAT(other_devices(policy, at::kCPU), IsEmpty())
      << "a run on the CPU does not move to a GPU";
  policy.recovery.on_oom = {OnOom::kCpu, OnOom::kGpu};
  EXPECT_THAT(other_devices(policy, kGpu), ElementsAre("cpu", "gpu"));
}

TEST(OtherDevices, AreListedInTheException) {
  MemoryPolicy policy;
  policy.recovery.on_oom = {OnOom::kReplan, OnOom::kCpu, OnOom::kStop};
  const auto run_out = [] { throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "full"); };
  try {
    run_or_go_elsewhere(policy, kGpu, run_out);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kOutOfMemory);
    EXPECT_STREQ(error.what(), "out of memory");
    EXPECT_THAT(error.other_devices, ElementsAre("cpu"));
    EXPECT_EQ(error.incident.cause, "out of memory");
  }
  EXPECT_THROW(run_or_go_elsewhere(policy, at::kCPU, run_out), c10::OutOfMemoryError);
  EXPECT_THROW(run_or_go_elsewhere({}, kGpu, run_out), c10::OutOfMemoryError);
  try {
    run_or_go_elsewhere(policy, kGpu, [] { throw std::runtime_error("broken"); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "broken") << "another device would not help";
  }
}

}  // namespace
}  // namespace stages
