#include "runner/worker/left_memory.h"

#include <algorithm>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/stage/keeper.h"

namespace runner {
namespace {

constexpr std::int64_t kMib = std::int64_t{1} << 20;

struct Keeping final : Artifact, Keeper {
  explicit Keeping(std::int64_t wanted) : wanted(wanted) {}
  ArtifactType type() const override { return ArtifactType::kDataset; }
  std::int64_t could_keep() const override { return wanted; }
  void allow(const Allowance& allowance) const override {
    let = allowance.memory;
    where = allowance.cache.string() + " " + allowance.build;
  }
  std::string kept_elsewhere() const override { return elsewhere; }
  const std::int64_t wanted;
  mutable std::int64_t let = -1;
  mutable std::string where;
  std::string elsewhere;
};

DryNode planned(std::int64_t needed, std::optional<std::int64_t> budget) {
  DryNode node;
  node.plan.emplace();
  node.plan->needed = needed;
  node.plan->budget = budget;
  return node;
}

class LeftMemoryTest : public testing::Test {
 protected:
  LeftMemoryTest() { left_.add(0, {{"train", train_}, {"test", test_}}); }
  std::shared_ptr<const Keeping> train_ = std::make_shared<Keeping>(30 * kMib),
                                 test_ = std::make_shared<Keeping>(10 * kMib);
  LeftMemory left_{"cache", "build"};
};

TEST_F(LeftMemoryTest, AvailableMemoryIsGrantedAndCountedInEveryPlan) {
  std::vector<DryNode> nodes = {DryNode{}, planned(50 * kMib, 100 * kMib),
                                planned(1 * kMib, std::nullopt)};
  left_.share(nodes, "cpu");
  EXPECT_EQ(train_->let, 30 * kMib);
  EXPECT_EQ(test_->let, 10 * kMib);
  EXPECT_EQ(nodes[1].plan->needed, 90 * kMib);
  EXPECT_EQ(nodes[2].plan->needed, 41 * kMib);
  EXPECT_EQ(nodes[1].plan->terms.back().name, "cache");
  EXPECT_THAT(left_.text(0), testing::ElementsAre(
                                 "40.0 MiB may be cached in memory: all that this stage can use"));
  EXPECT_THAT(left_.text(1), testing::IsEmpty());
}

TEST_F(LeftMemoryTest, AlternativesCountTheirRemainingCache) {
  std::vector<DryNode> nodes = {planned(50 * kMib, 100 * kMib)};
  nodes[0].plan->alternatives = {
      {.needed = 30 * kMib}, {.needed = 80 * kMib}, {.needed = 120 * kMib}};
  left_.share(nodes, "cpu");
  const auto& others = nodes[0].plan->alternatives;
  EXPECT_EQ(others[0].needed, 70 * kMib);
  EXPECT_EQ(others[1].needed, 100 * kMib) << "the rest is kept on disk or read again";
  EXPECT_EQ(others[2].needed, 120 * kMib);
}

TEST_F(LeftMemoryTest, MemoryLeftByTheTightestPlanIsShared) {
  std::vector<DryNode> nodes = {planned(50 * kMib, 100 * kMib), planned(80 * kMib, 100 * kMib)};
  left_.share(nodes, "cpu");
  EXPECT_NEAR(static_cast<double>(train_->let), 15.0 * kMib, 1);
  EXPECT_NEAR(static_cast<double>(test_->let), 5.0 * kMib, 1);
  EXPECT_TRUE(nodes[1].plan->fits());
  EXPECT_LE(train_->let + test_->let, 20 * kMib);
  EXPECT_THAT(left_.text(0),
              testing::ElementsAre(
                  "20.0 MiB of the 40.0 MiB that this stage could use may be cached in memory"));
}

TEST_F(LeftMemoryTest, PlanThatDoesNotFitLeavesNoMemory) {
  std::vector<DryNode> nodes = {planned(101 * kMib, 100 * kMib), planned(1, 100 * kMib)};
  left_.share(nodes, "cpu");
  EXPECT_EQ(train_->let, 0);
  EXPECT_EQ(nodes[0].plan->needed, 101 * kMib);
}

TEST_F(LeftMemoryTest, LaterPlanReclaimsTheMemoryItNeeds) {
  std::vector<DryNode> nodes = {planned(10 * kMib, 100 * kMib)};
  left_.share(nodes, "cpu");
  DryNode later = planned(80 * kMib, 100 * kMib);
  left_.count_in(*later.plan);
  EXPECT_TRUE(later.plan->fits());
  EXPECT_LE(train_->let + test_->let, 20 * kMib);
  EXPECT_GT(train_->let, 0);
}

TEST_F(LeftMemoryTest, GpuPlansDoNotCountTheCache) {
  std::vector<DryNode> nodes = {planned(99 * kMib, 100 * kMib)};
  left_.share(nodes, "cuda:0");
  EXPECT_EQ(train_->let, 30 * kMib);
  EXPECT_EQ(nodes[0].plan->needed, 99 * kMib);
}

TEST_F(LeftMemoryTest, RepeatedOutputGetsOnlyThePlannedMemory) {
  std::vector<DryNode> nodes = {planned(90 * kMib, 100 * kMib)};
  left_.share(nodes, "cpu");
  const auto anew = std::make_shared<Keeping>(1000 * kMib);
  left_.renew(0, {{"train", anew}});
  EXPECT_EQ(anew->let, train_->let);
}

TEST_F(LeftMemoryTest, ArtifactOnDiskKnowsItsCacheFolder) {
  const auto other = std::make_shared<Keeping>(0);
  other->elsewhere = "more is kept on the disk";
  left_.add(1, {{"train", other}});
  std::vector<DryNode> nodes = {planned(10 * kMib, 20 * kMib)};
  left_.share(nodes, "cpu");
  EXPECT_EQ(other->let, 0);
  EXPECT_EQ(other->where, "cache build");
  EXPECT_THAT(left_.text(1), testing::ElementsAre("more is kept on the disk"));
}

TEST_F(LeftMemoryTest, ForwardedArtifactCountsOnce) {
  left_.add(1, {{"train", train_}});
  std::vector<DryNode> nodes = {planned(10 * kMib, 200 * kMib)};
  left_.share(nodes, "cpu");
  EXPECT_EQ(nodes[0].plan->needed, 50 * kMib);
  EXPECT_THAT(left_.text(1), testing::IsEmpty());
}

}  // namespace
}  // namespace runner
