// Plans that include the memory held by earlier nodes.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "tests/support/executor_fixture.h"

namespace runner {
namespace {

using testing::ElementsAre;

/// An artifact that keeps 30 bytes.
struct Weights : Artifact {
  static constexpr auto kType = ArtifactType::kCheckpoint;
  ArtifactType type() const override { return kType; }
  HeldMemory held() const override { return {.on_device = 20, .on_host = 10}; }
};

/// Needs 40 bytes of `budget` in addition to memory held by others, and outputs Weights.
class HoldingStage : public Stage {
 public:
  explicit HoldingStage(std::int64_t budget) : budget_(budget) {}
  std::optional<Outputs> plan(const Inputs&, PlanContext& context) override {
    MemoryPlan plan{
        .needed = 40, .budget = budget_, .budget_from = "memory.budget", .held = context.held()};
    plan.needed += plan.held_bytes();
    context.plan(std::move(plan));
    return Outputs{{"weights", std::make_shared<Weights>()}};
  }
  Outputs run(const Inputs&, RunContext& context) override {
    context.say("runs");
    return {{"weights", std::make_shared<Weights>()}};
  }

 private:
  const std::int64_t budget_;
};

const StageKind kHolding{"train.holding",
                         [](ConfigReader& reader) -> Result<std::unique_ptr<Stage>> {
                           std::int64_t budget = 0;
                           reader.read("budget", budget);
                           if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
                           return std::unique_ptr<Stage>(std::make_unique<HoldingStage>(budget));
                         }};

class HeldTest : public ExecutorTest {
 protected:
  static Node holding(const std::string& id, std::int64_t budget,
                      std::vector<std::size_t> from = {}) {
    Node made = node(id, 0);
    made.kind = "train.holding";
    made.options = from_json({{"budget", budget}});
    for (const std::size_t index : from)
      made.inputs.push_back({"in", index, "weights", ArtifactType::kCheckpoint});
    return made;
  }
  std::unique_ptr<Executor> made(std::vector<Node> nodes) {
    static const StageKind* const kinds[] = {&kHolding};
    return created(std::move(nodes), kinds);
  }
  /// Three training nodes under `budget`, and a fourth node that gathers their weights.
  std::unique_ptr<Executor> gathered(std::int64_t budget) {
    return made({holding("train.1", budget), holding("train.2", budget), holding("train.3", budget),
                 holding("vote", budget, {0, 1, 2})});
  }
  /// The planned bytes of each node.
  static std::vector<std::int64_t> needs(Executor& executor) {
    EXPECT_TRUE(executor.plan({}, {}, /*strict=*/true, "cpu").empty());
    std::vector<std::int64_t> bytes;
    for (const DryNode& node : executor.planned()) bytes.push_back(node.plan->needed);
    return bytes;
  }
};

TEST_F(HeldTest, EachNodeIsPlannedWithMemoryHeldByEarlierOnes) {
  const auto executor = gathered(100);
  EXPECT_THAT(needs(*executor), ElementsAre(40, 70, 100, 40))
      << "a node's own inputs are not held by others";
  EXPECT_EQ(executor->planned()[2].plan->held,
            (std::vector<NamedBytes>{{"train.1.weights", 30}, {"train.2.weights", 30}}));
  EXPECT_EQ(largest_plan(executor->planned())->node, "train.3");
}

TEST_F(HeldTest, KeptInputsOfANodeAreNotCountedAsHeld) {
  EXPECT_THAT(needs(*made({holding("train", 100), holding("vote.1", 100, {0}),
                           holding("vote.2", 100, {0})})),
              ElementsAre(40, 40, 40));
}

TEST_F(HeldTest, CpuMemoryIsNotCountedOnAGpu) {
  const auto executor = gathered(100);
  executor->plan({}, {}, /*strict=*/true, "cuda:0");
  EXPECT_EQ(executor->planned()[2].plan->held_bytes(), 40);
}

TEST_F(HeldTest, BudgetOfALaterNodeIsCheckedBeforeTheFirstStarts) {
  const Diagnostics errors = gathered(90)->plan({}, {}, /*strict=*/false, "cpu");
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].message,
            "'train.3' needs 100 B at its peak, 60 B of it held by earlier nodes, and may use 90 B "
            "(memory.budget): 10 B too much");
  ASSERT_EQ(errors[0].notes.size(), 2U);
  EXPECT_EQ(errors[0].notes[1].message, "held by an earlier node: train.2.weights, 30 B");
  EXPECT_TRUE(events_.empty());
}

TEST_F(HeldTest, RecordedPlanNamesThePeakNodeOfTheRun) {
  const auto executor = gathered(100);
  executor->plan({}, {}, /*strict=*/false, "cpu");
  EXPECT_EQ(executor->run({.folder = folder_}, "cpu"), ExitCode::kDone);
  const auto plan = nlohmann::json::parse(std::ifstream(folder_ / "nodes/train.2/plan.json"));
  EXPECT_EQ(plan.at("held").at(0).at("name"), "train.1.weights");
  EXPECT_EQ(plan.at("run_peak"),
            (nlohmann::json{{"node", "train.3"}, {"needed", 100}, {"held", 60}}));
}

}  // namespace
}  // namespace runner
