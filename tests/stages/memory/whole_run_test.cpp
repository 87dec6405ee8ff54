// Compares the memory that the nodes of a whole run use, according to the counting allocator, with
// their plans.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/graph/run_order.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/worker/executor.h"
#include "stages/artifact/model.h"
#include "tests/support/whole_run.h"

namespace stages {
namespace {

using runner::ArtifactType;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kItems = 5;

class NoiseStage final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader&) {
    return std::unique_ptr<runner::Stage>(std::make_unique<NoiseStage>());
  }
  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    return {{"train", std::make_shared<NoiseImages>(24, 32)},
            {"test", std::make_shared<NoiseImages>(12, 32)}};
  }
};
const runner::StageKind kNoise{"data.noise", NoiseStage::create};

/// Uses all networks together, as an ensemble does.
class EnsembleStage final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader&) {
    return std::unique_ptr<runner::Stage>(std::make_unique<EnsembleStage>());
  }
  std::optional<runner::Outputs> plan(const runner::Inputs&, runner::PlanContext&) override {
    return runner::Outputs();
  }
  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    context.say(std::to_string(inputs.all<Checkpoint>("checkpoint").size()) + " networks");
    return {};
  }
};
const runner::StageKind kEnsemble{"evaluate.ensemble", EnsembleStage::create};

/// Five training nodes of a foreach and their evaluations, grouped by stage, in the order of
/// compile().
runner::Graph five_items(const std::string& budget, bool as_ensemble) {
  runner::Graph graph{"test", 0, std::nullopt, "cpu", 1, {}};
  graph.nodes = {node("data", "data.noise"),
                 node("model", "model.clip_vision",
                      R"({"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4,
                          "num_attention_heads": 4, "patch_size": 8})"),
                 node("memory", "memory.policy", R"({"budget": ")" + budget + R"("})")};
  const std::size_t first = graph.nodes.size();
  for (int item = 1; item <= kItems; ++item) {
    runner::Node train = node(
        "train." + std::to_string(item), "train.supervised",
        R"({"epochs": 1, "batch_size": 4, "optimizer": {"kind": "adamw", "learning_rate": 0.00)" +
            std::to_string(item) + "}}");
    train.seed += static_cast<std::uint64_t>(item);
    train.inputs = {{"train", 0, "train", ArtifactType::kDataset},
                    {"model", 1, "model", ArtifactType::kModel},
                    {"memory", 2, "memory", ArtifactType::kMemoryPolicy}};
    graph.nodes.push_back(std::move(train));
  }
  for (int item = 0; item < kItems && !as_ensemble; ++item) {
    runner::Node evaluate = node("evaluate." + std::to_string(item + 1), "evaluate.classification",
                                 R"({"batch_size": 4})");
    evaluate.inputs = {{"test", 0, "test", ArtifactType::kDataset},
                       {"checkpoint", first + static_cast<std::size_t>(item), "checkpoint",
                        ArtifactType::kCheckpoint},
                       {"memory", 2, "memory", ArtifactType::kMemoryPolicy}};
    graph.nodes.push_back(std::move(evaluate));
  }
  if (!as_ensemble) return graph;
  graph.nodes.push_back(node("ensemble", "evaluate.ensemble"));
  for (std::size_t item = 0; item < kItems; ++item)
    graph.nodes.back().inputs.push_back(
        {"checkpoint", first + item, "checkpoint", ArtifactType::kCheckpoint});
  return graph;
}

/// A run that also knows the kinds above.
class RunOfItems final : public WholeRun {
 public:
  explicit RunOfItems(runner::Graph graph) : WholeRun(std::move(graph), {&kNoise, &kEnsemble}) {}
};

void expect_as_planned(const WholeRun& run) {
  const auto peaks = run.peaks();
  EXPECT_GE(peaks.size(), static_cast<std::size_t>(kItems));
  for (const auto& [id, peak] : peaks) {
    EXPECT_GE(peak.counted, peak.tensors) << id;
    EXPECT_LE(peak.counted, peak.needed) << id;
    EXPECT_GE(1.35 * static_cast<double>(peak.counted), static_cast<double>(peak.needed)) << id;
  }
}

TEST(WholeRun, ItemsAreEvaluatedAndFreedInTurnWithinTheirPlans) {
  RunOfItems run(five_items("auto", /*as_ensemble=*/false));
  ASSERT_TRUE(run.plan().empty());
  EXPECT_EQ(run.needed("train.5"), run.needed("train.1"));
  ASSERT_EQ(run.run(), runner::ExitCode::kDone);
  EXPECT_THAT(run.started(), ElementsAre("data", "model", "memory", "train.1", "evaluate.1",
                                         "train.2", "evaluate.2", "train.3", "evaluate.3",
                                         "train.4", "evaluate.4", "train.5", "evaluate.5"));
  expect_as_planned(run);
}

TEST(WholeRun, ResultOfAnItemDoesNotDependOnEarlierItems) {
  const runner::Graph all = five_items("auto", /*as_ensemble=*/false);
  RunOfItems together(all);
  ASSERT_EQ(together.run(), runner::ExitCode::kDone);
  const auto alone = runner::only(all, "evaluate.4");
  ASSERT_TRUE(alone);
  RunOfItems single(*alone);
  ASSERT_EQ(single.run(), runner::ExitCode::kDone);
  const auto expected = together.metrics("evaluate.4");
  EXPECT_GT(expected.size(), 3U);
  EXPECT_EQ(single.metrics("evaluate.4"), expected);
}

TEST(WholeRun, LaterPlansCountNetworksThatStayInMemory) {
  RunOfItems run(five_items("auto", /*as_ensemble=*/true));
  ASSERT_TRUE(run.plan().empty());
  EXPECT_GT(run.needed("train.5"), run.needed("train.1") * 3 / 2);
  ASSERT_EQ(run.run(), runner::ExitCode::kDone);
  expect_as_planned(run);
}

TEST(WholeRun, BudgetTooSmallForTheLastItemIsRejectedAtTheStart) {
  RunOfItems unlimited(five_items("auto", /*as_ensemble=*/true));
  unlimited.plan();
  const double mib = static_cast<double>(unlimited.needed("train.3")) / (1 << 20);
  RunOfItems run(
      five_items(std::to_string(mib).substr(0, std::to_string(mib).find('.') + 4) + "MiB", true));
  const runner::Diagnostics errors = run.plan();
  ASSERT_FALSE(errors.empty());
  EXPECT_EQ(errors.back().code, runner::ErrorCode::kOutOfMemory);
  EXPECT_THAT(errors.back().message, HasSubstr("'train.5' needs "));
  EXPECT_THAT(errors.back().message, HasSubstr(" of it held by earlier nodes, and may use "));
  EXPECT_THAT(run.started(), testing::IsEmpty());
}

}  // namespace
}  // namespace stages
