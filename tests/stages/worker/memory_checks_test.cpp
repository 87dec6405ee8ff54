#include "stages/worker/memory_checks.h"

#include <map>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"

namespace stages {
namespace {

/// The results by name. The two environment variables are omitted: LibTorch reads them once per
/// process, and earlier tests have made it do so.
std::map<std::string, MechanismCheck> checked(const Mechanisms& mechanisms = {}) {
  std::map<std::string, MechanismCheck> results;
  for (const MechanismCheck& check : check_mechanisms(mechanisms)) {
    if (!check.name.starts_with("PYTORCH_")) results.emplace(check.name, check);
  }
  return results;
}

std::vector<std::string> failed(const std::map<std::string, MechanismCheck>& results) {
  std::vector<std::string> names;
  for (const auto& [name, check] : results) {
    if (!check.passed) names.push_back(name + ": " + check.found);
  }
  return names;
}

TEST(MemoryChecks, AllPassWithACountingAllocator) {
  const CountingAllocator counter;
  const auto results = checked();
  EXPECT_EQ(results.size(), 10);
  EXPECT_THAT(failed(results), testing::IsEmpty());
  EXPECT_EQ(results.at("budget").found, "1.0 MiB is granted, and 1 byte more is refused");
  EXPECT_EQ(counter.limit(), std::nullopt);
}

TEST(MemoryChecks, AllPassOnAPool) {
  const CpuPool pool;
  const CountingAllocator counter;
  const auto results = checked();
  EXPECT_THAT(failed(results), testing::IsEmpty());
  EXPECT_EQ(results.at("budget").found, "1.0 MiB is granted, and 1 byte more is refused");
  EXPECT_EQ(pool.limit(), std::nullopt);
}

TEST(MemoryChecks, AllFailWithoutACounter) {
  for (const auto& [name, check] : checked()) {
    EXPECT_FALSE(check.passed) << name;
    EXPECT_EQ(check.found, "the tensors of this process are not counted");
  }
}

TEST(MemoryChecks, IgnoredBudgetIsDetected) {
  CountingAllocator counter;
  EXPECT_THAT(failed(checked({.set_limit = [](std::optional<std::int64_t>) {}})),
              testing::ElementsAre("budget: 1 byte above a budget of 1.0 MiB is granted"));
  EXPECT_THAT(failed(checked({.set_limit =
                                  [&](std::optional<std::int64_t> bytes) {
                                    counter.set_limit(bytes ? std::optional(*bytes - 1) : bytes);
                                  }})),
              testing::ElementsAre("budget: 1.0 MiB is refused with a budget of 1.0 MiB"));
}

TEST(MemoryChecks, StalePeakIsDetected) {
  const CountingAllocator counter;
  torch::empty({10000}, torch::kByte);
  EXPECT_THAT(failed(checked({.restart_peak = [] {}})),
              testing::Contains(
                  testing::StartsWith("exact count: 4168 bytes were live, but the peak is ")));
}

TEST(MemoryChecks, MissingRetryIsDetected) {
  const CountingAllocator counter;
  EXPECT_THAT(failed(checked({.replays = 0})),
              testing::ElementsAre(testing::StartsWith("replay: out of memory in phase '")));
}

TEST(MemoryChecks, WrongGradientIsDetected) {
  const CountingAllocator counter;
  const auto wrong = [](const TrainingStep& step, const PreparedNetwork& network,
                        const Batch& batch, double weight, const StepPlan& plan, const StepKey& key,
                        const AccumulationOptions& options) {
    return accumulate_gradient(step, network, batch, plan.micro_batch > 0 ? 9 : weight, plan, key,
                               options);
  };
  EXPECT_THAT(failed(checked({.accumulate = wrong})),
              testing::ElementsAre("micro-batches: micro-batches of 3 give a different gradient "
                                   "than the batch of 8: relative error 1.1e-01",
                                   "two passes: micro-batches of 3 give a different gradient than "
                                   "the batch of 8: relative error 1.1e-01"));
}

TEST(MemoryChecks, IneffectiveSettingsAreDetected) {
  const CountingAllocator counter;
  EXPECT_THAT(
      failed(checked(
          {.apply_settings = [](const AllocatorSettings&) { return std::vector<std::string>(); }})),
      testing::ElementsAre(
          "allocator settings: expandable_segments is not on when it is read back"));
}

}  // namespace
}  // namespace stages
