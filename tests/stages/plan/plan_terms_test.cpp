#include "stages/plan/plan_forward.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/planning_context.h"

namespace stages {
namespace {

DatasetDescription images() {
  DatasetDescription description;
  description.size = 100;
  description.tensors = {{"image", {3, 8, 8}, torch::kFloat}, {"label", {}, torch::kLong}};
  return description;
}

TEST(MetaBatch, HasTheDescribedShape) {
  const Batch batch = meta_batch(images(), 5);
  EXPECT_EQ(batch.units(), 5);
  EXPECT_TRUE(batch["image"].is_meta());
  EXPECT_EQ(batch["image"].sizes(), (std::vector<std::int64_t>{5, 3, 8, 8}));
  EXPECT_EQ(batch["label"].scalar_type(), torch::kLong);
  EXPECT_EQ(batch.indices, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

constexpr std::int64_t kSampleBytes = 3 * 8 * 8 * 4 + 8;

runner::MemoryPlan with_read_ahead(const LoaderOptions& loader, std::int64_t units,
                                   at::DeviceType device = at::kCPU) {
  runner::MemoryPlan plan;
  plan.needed = 1000;
  add_read_ahead(plan, device, images(), loader, units);
  return plan;
}

TEST(PlanTerms, TermsAreIncluded) {
  const runner::MemoryPlan plan = with_read_ahead({.workers = 3, .prefetch = 2}, 10);
  const std::int64_t bytes = (2 * 10 + 3) * kSampleBytes;
  EXPECT_EQ(plan.terms,
            (std::vector<runner::NamedBytes>{
                {"loader", bytes, "20 samples read ahead, and one for each of 3 workers"}}));
  EXPECT_EQ(plan.needed, 1000 + bytes);
}

TEST(PlanTerms, ReadAheadIsLimitedToTheSamples) {
  EXPECT_EQ(with_read_ahead({.workers = 1, .prefetch = 8}, 40).needed,
            1000 + (60 + 1) * kSampleBytes);
  EXPECT_EQ(with_read_ahead({.workers = 1, .prefetch = 8, .drop_last = true}, 40).needed,
            1000 + (40 + 1) * kSampleBytes);
}

TEST(PlanTerms, ReadingAnEpisodeNeedsMemoryForOneMoreImage) {
  DatasetDescription episodes;
  episodes.size = 100;
  episodes.tensors = {{"image", {6, 3, 4, 4}, torch::kFloat},
                      {"support", {2, 1}, torch::kLong},
                      {"label", {4}, torch::kLong}};
  const std::int64_t bytes = 4 * 6 * 48 + 8 * 6;
  runner::MemoryPlan plan;
  add_read_ahead(plan, at::kCPU, episodes, {.workers = 3, .prefetch = 2}, 1);
  EXPECT_EQ(plan.needed, 2 * bytes + 3 * (bytes + bytes / 6));
  EXPECT_GE(bytes / 6, 4 * 48);
}

TEST(PlanTerms, MemoryKeptByEarlierNodesIsAdded) {
  PlanningContext context;
  context.kept_by_others = {{"train.1.checkpoint", 700}, {"train.2.checkpoint", 300}};
  runner::MemoryPlan plan{.needed = 50};
  add_held_memory(plan, context, {});
  EXPECT_EQ(plan.needed, 1050);
  EXPECT_EQ(plan.held_bytes(), 1000);
  EXPECT_TRUE(plan.terms.empty());
}

TEST(PlanTerms, NothingIsReadAheadWithoutWorkersOrOnAGpu) {
  EXPECT_EQ(with_read_ahead({.workers = 0}, 10).needed, 1000);
  EXPECT_EQ(with_read_ahead({.workers = 3}, 10, at::kCUDA).terms.size(), 0u);
}

}  // namespace
}  // namespace stages
