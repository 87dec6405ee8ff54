// A training run with a memory budget on the CPU.

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

/// Returns the peak bytes of a training run from its beginning; its weights are those of `network`.
std::int64_t peak_of(TinyTraining& training) {
  const CountingAllocator counter;
  training.run();
  return counter.peak_bytes();
}

struct Tried {
  std::string error, help, place;
  std::vector<std::string> said;
  at::Tensor weights;
  std::optional<std::int64_t> limit_after;
};

Tried under(std::int64_t budget) {
  TinyTraining training;
  training.policy.budget = budget;
  training.policy.pointer = "/memory";
  CountingAllocator counter;
  Tried tried;
  try {
    training.run();
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kOutOfMemory);
    tried = {error.what(), error.help, error.stage + error.option, training.context.said, {}, {}};
  }
  tried.weights = training.flat_weights();
  tried.limit_after = counter.limit();
  return tried;
}

TEST(Budget, SufficesAtThePeakButNotOneByteBelow) {
  TinyTraining free;
  free.train_data->options.workers = free.validation->options.workers = 0;
  const std::int64_t peak = peak_of(free);
  const Tried enough = under(peak), too_little = under(peak - 1);
  EXPECT_EQ(enough.error, "");
  EXPECT_TRUE(enough.weights.equal(free.flat_weights())) << "a budget changes no bits";
  EXPECT_THAT(too_little.error,
              testing::MatchesRegex("out of memory in .*step [0-9]+: tried to allocate .* while "
                                    ".* of .* are in use"));
  EXPECT_THAT(
      too_little.help,
      testing::MatchesRegex("set memory.micro_batch below the batch of 8, or raise the "
                            "budget: [0-9]+ bytes is the smallest budget that gets further"));
  EXPECT_EQ(too_little.place, "/memory/budget");
  EXPECT_EQ(too_little.limit_after, std::nullopt);
  EXPECT_THAT(too_little.said,
              testing::Contains(testing::StartsWith("live when memory ran out in ")));
  EXPECT_THAT(too_little.said, testing::Contains(testing::StartsWith("  allocated in ")));
}

TEST(Budget, LimitsTheReservedBytesOfAPool) {
  TinyTraining free;
  free.train_data->options.workers = free.validation->options.workers = 0;
  std::int64_t reserved = 0;
  {
    const CpuPool pool;
    peak_of(free);
    reserved = pool.peak_reserved();
  }
  const CpuPool pool;
  const Tried enough = under(reserved);
  EXPECT_EQ(enough.error, "");
  EXPECT_TRUE(enough.weights.equal(free.flat_weights())) << "a pool or a budget changes no bits";
  EXPECT_LE(pool.peak_reserved(), reserved);
  const Tried too_little = under(BlockPool::kPage);
  EXPECT_THAT(
      too_little.error,
      testing::MatchesRegex("out of memory in .*: tried to allocate .* while .* of 4.0 KiB are "
                            "in use"));
  EXPECT_EQ(too_little.place, "/memory/budget");
  EXPECT_EQ(pool.limit(), std::nullopt);
}

}  // namespace
}  // namespace stages
