// Plans of a graph, before it runs.

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
using testing::HasSubstr;

/// A stage that is planned to need `needs` bytes of a budget of 100. It outputs a placeholder.
class PlannedStage : public Stage {
 public:
  static constexpr std::int64_t kMeasured = 77;

  explicit PlannedStage(std::int64_t needs) : needs_(needs) {}
  std::optional<Outputs> plan(const Inputs& inputs, PlanContext& context) override {
    if (needs_ < 0)
      throw StageError(ErrorCode::kMissingFolder, "no folder 'x'").at("/root").with_help("make it");
    const bool has_input = inputs.find<Number>("in") != nullptr;
    MemoryPlan plan{
        .needed = needs_, .budget = 100, .budget_from = has_input ? "with input" : "alone"};
    plan.step = context.earlier_step();
    if (needs_ < 50)
      plan.choice = PlanChoice{.exactness = "bit", .summary = "the whole batch at once"};
    if (needs_ == kMeasured) plan.measured = "no values (net.py:3)";
    context.plan(std::move(plan));
    return Outputs{{"out", std::make_shared<Number>(0)}};
  }
  Outputs run(const Inputs&, RunContext& context) override {
    context.say("runs");
    return {{"out", std::make_shared<Number>(1)}};
  }

 private:
  const std::int64_t needs_;
};

const StageKind kPlanned{"train.planned",
                         [](ConfigReader& reader) -> Result<std::unique_ptr<Stage>> {
                           std::int64_t needs = 0;
                           reader.read("needs", needs);
                           if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
                           return std::unique_ptr<Stage>(std::make_unique<PlannedStage>(needs));
                         }};

/// A data stage that counts its runs. It finds no data until the folder `where` contains the file
/// "data".
class CountingStage : public Stage {
 public:
  Outputs run(const Inputs&, RunContext& context) override {
    ++runs;
    if (!is_there) throw StageError(ErrorCode::kMissingFolder, "no data yet");
    context.say("5 samples");
    return {{"out", std::make_shared<Number>(5)}};
  }
  static inline int runs = 0;
  static inline bool is_there = true;
};

const StageKind kCounting{"data.counting", [](ConfigReader&) -> Result<std::unique_ptr<Stage>> {
                            return std::unique_ptr<Stage>(std::make_unique<CountingStage>());
                          }};

class DryRunTest : public ExecutorTest {
 protected:
  DryRunTest() {
    CountingStage::runs = 0;
    CountingStage::is_there = true;
  }
  static Node planned(const std::string& id, std::int64_t needs,
                      std::vector<std::size_t> from = {}) {
    Node made = node(id, 0, "", std::move(from));
    made.kind = "train.planned";
    made.options = from_json({{"needs", needs}});
    return made;
  }
  static Node data() {
    Node made = node("data", 0);
    made.kind = "data.counting";
    made.options = from_json(nlohmann::ordered_json::object());
    return made;
  }
  std::unique_ptr<Executor> made(std::vector<Node> nodes) {
    static const StageKind* const kinds[] = {&kPlanned, &kCounting, &kAdding};
    return created(std::move(nodes), kinds);
  }
  static std::string text(const Diagnostics& errors) {
    std::string text;
    for (const Diagnostic& error : errors) text += name(error.code) + " " + error.pointer + "; ";
    return text;
  }
};

TEST_F(DryRunTest, PlansNodesWithoutRunningThem) {
  const auto executor = made({data(), planned("train", 60, {0})});
  EXPECT_TRUE(executor->plan({}, {}, /*strict=*/true, "cpu").empty());
  ASSERT_TRUE(executor->planned()[1].plan);
  EXPECT_EQ(executor->planned()[1].plan->node, "train");
  EXPECT_EQ(executor->planned()[1].plan->needed, 60);
  EXPECT_EQ(executor->planned()[1].plan->budget_from, "with input");
  EXPECT_EQ(executor->planned()[0].state, DryNode::State::kRuns);
  EXPECT_FALSE(executor->planned()[0].plan);
  EXPECT_TRUE(events_.empty());
}

TEST_F(DryRunTest, NodeThatDoesNotFitIsReportedAtItsLocation) {
  const auto executor =
      made({planned("small", 100), planned("large", 101), planned("larger", 102)});
  EXPECT_EQ(text(executor->plan({}, {}, /*strict=*/false, "cpu")), "E0706 /large; E0706 /larger; ");
}

TEST_F(DryRunTest, MeasuredPlanCausesAWarningPerStage) {
  auto again = planned("again", PlannedStage::kMeasured);
  again.pointer = "/first";
  const auto executor =
      made({planned("first", PlannedStage::kMeasured), again, planned("traced", 60)});
  EXPECT_TRUE(executor->plan({}, {}, /*strict=*/true, "cpu").empty());
  ASSERT_EQ(events_.size(), 1);
  const Diagnostic& warning = std::get<Reported>(events_[0]).diagnostic;
  EXPECT_EQ(warning.severity, Severity::kWarning);
  EXPECT_EQ(name(warning.code) + " " + warning.pointer + ": " + warning.message,
            "E0717 /first: the plan of 'first' was measured by running real steps, since a dry run "
            "fails: no values (net.py:3)");
}

TEST_F(DryRunTest, CertificateDoesNotCheckTheBudget) {
  const auto executor = made({planned("large", 101)});
  EXPECT_TRUE(executor->plan({}, {.wants_certificate = true}, /*strict=*/true, "cpu").empty());
  EXPECT_FALSE(executor->planned()[0].plan->fits());
}

TEST_F(DryRunTest, NodeRunForPlanningIsNotRunAgain) {
  const auto executor = made({data(), planned("train", 60, {0})});
  executor->plan({}, {}, /*strict=*/false, "cpu");
  EXPECT_EQ(CountingStage::runs, 1);
  EXPECT_EQ(executor->run({.folder = folder_}, "cpu"), ExitCode::kDone);
  EXPECT_EQ(CountingStage::runs, 1);
  std::vector<std::string> said;
  for (const auto& line : all<Said>()) said.push_back(line.node + ": " + line.line);
  EXPECT_THAT(said, ElementsAre("data: 5 samples",
                                "train: needs 60 B according to the plan, of 100 B (with input)",
                                "train: runs"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "nodes" / "train" / "plan.json"));
}

TEST_F(DryRunTest, ChoiceIsPrintedWhenTheNodeRuns) {
  const auto executor = made({planned("train", 40)});
  executor->plan({}, {}, /*strict=*/false, "cpu");
  EXPECT_EQ(executor->run({.folder = folder_}, "cpu"), ExitCode::kDone);
  ASSERT_FALSE(all<Said>().empty());
  EXPECT_EQ(all<Said>()[0].line, "chosen: the whole batch at once");
}

TEST_F(DryRunTest, ResumedRunReusesItsPlans) {
  MemoryPlan before;
  before.step = {{"micro_batch", 3}};
  std::filesystem::create_directories(folder_ / "nodes/train");
  std::ofstream(folder_ / "nodes/train/plan.json") << to_json(before);
  const auto step = [&](const RunOptions& options) {
    const auto executor = made({planned("train", 60), planned("other", 60)});
    EXPECT_TRUE(executor->plan(options, {}, /*strict=*/true, "cpu").empty());
    EXPECT_TRUE(executor->planned()[1].plan->step.is_null());
    return executor->planned()[0].plan->step;
  };
  EXPECT_EQ(step({.resume = true, .resumed = folder_}), before.step);
  EXPECT_TRUE(step({.resumed = folder_}).is_null()) << "it does not resume";
  EXPECT_TRUE(step({.resume = true}).is_null());
  EXPECT_TRUE(events_.empty());
}

TEST_F(DryRunTest, UnreadableEarlierPlanIsReplaced) {
  std::filesystem::create_directories(folder_ / "nodes/train");
  std::ofstream(folder_ / "nodes/train/plan.json") << "[1";
  const auto executor = made({planned("train", 60)});
  EXPECT_TRUE(
      executor->plan({.resume = true, .resumed = folder_}, {}, /*strict=*/true, "cpu").empty());
  EXPECT_TRUE(executor->planned()[0].plan->step.is_null());
  ASSERT_EQ(all<Said>().size(), 1U);
  EXPECT_EQ(all<Said>()[0].node, "train");
  EXPECT_THAT(all<Said>()[0].line,
              HasSubstr("the earlier plan cannot be read, so the step is planned again: "));
}

TEST_F(DryRunTest, NodesWithMissingInputsArePlannedDuringTheRun) {
  CountingStage::is_there = false;
  const auto executor = made({data(), planned("train", 101, {0})});
  // A resumed run may not need the data at all.
  EXPECT_TRUE(executor->plan({.resume = true}, {}, /*strict=*/false, "cpu").empty());
  EXPECT_EQ(executor->planned()[1].state, DryNode::State::kUnknown);
  CountingStage::is_there = true;
  EXPECT_EQ(executor->run({.folder = folder_}, "cpu"), ExitCode::kRunFailed);
  EXPECT_THAT(only_error(), HasSubstr("E0706 /train"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nodes" / "train" / "finished.json"));
}

TEST_F(DryRunTest, ErrorsOfAStageAreReportedBeforeTheRun) {
  CountingStage::is_there = false;
  const auto executor = made({data(), planned("train", 1, {0}), planned("other", -1)});
  EXPECT_EQ(text(executor->plan({}, {}, /*strict=*/false, "cpu")),
            "E0601 /data; E0601 /other/root; ");
}

TEST_F(DryRunTest, StrictModeReportsEveryProblemOnce) {
  CountingStage::is_there = false;
  const auto executor = made({data(), planned("train", 1, {0}), planned("other", -1)});
  EXPECT_EQ(text(executor->plan({}, {}, /*strict=*/true, "cpu")),
            "E0601 /data; E0601 /other/root; ");
  std::vector<std::string> log;
  for (const DryNode& dry : executor->planned()) log.push_back(dry.node + ' ' + log_text(dry));
  EXPECT_THAT(log, ElementsAre("data cannot be planned: no data yet",
                               "train cannot be planned before others have run",
                               "other cannot be planned: no folder 'x'"));
}

TEST_F(DryRunTest, NodeThatCannotBePlannedIsNotRun) {
  const auto executor = made({node("train", 1)});
  EXPECT_TRUE(executor->plan({}, {}, /*strict=*/true, "cpu").empty());
  EXPECT_EQ(executor->planned()[0].state, DryNode::State::kUnknown);
}

}  // namespace
}  // namespace runner
