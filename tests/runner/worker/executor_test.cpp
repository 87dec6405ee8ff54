#include "runner/worker/executor.h"

#include <cstdlib>
#include <fstream>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "tests/support/system_calls.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Number : Artifact {
  static constexpr auto kType = ArtifactType::kMetrics;
  explicit Number(std::int64_t value) : value(value) { ++alive; }
  ~Number() override { --alive; }
  ArtifactType type() const override { return kType; }
  std::int64_t value;
  static inline int alive = 0;
};

/// Adds `plus` to the sum of its inputs and does what `act` says.
class AddingStage : public Stage {
 public:
  AddingStage(std::int64_t plus, std::string act) : plus_(plus), act_(std::move(act)) { ++alive; }
  ~AddingStage() override { --alive; }

  Outputs run(const Inputs& inputs, RunContext& context) override {
    if (act_ == "stage error")
      throw StageError(ErrorCode::kMissingFolder, "no folder 'x'").at("/root").with_help("make it");
    if (act_ == "stranded") {
      throw StageError(ErrorCode::kOutOfMemory, "no memory")
          .with_help("use less")
          .elsewhere({"gpu", "cpu"}, {.cause = "out of memory", .taken = 60}, 2);
    }
    if (act_ == "bad_alloc") throw std::bad_alloc();
    if (act_ == "torch")
      throw std::runtime_error("mat1 and mat2 cannot be multiplied\nException raised from here");
    if (act_ == "nondeterministic")
      throw std::runtime_error(
          "put_ does not have a deterministic implementation, but you set it\nException raised");
    if (act_ == "observed")
      throw StageError(ErrorCode::kStageFailed, context.node().observer ? "observed" : "alone");
    if (act_ == "torch oom")
      throw std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB");
    if (act_ == "disk full") throw std::system_error(ENOSPC, std::generic_category(), "weights");
    if (act_ == "strange") throw 42;
    if (act_ == "cancel") throw Cancelled{};
    if (act_ == "nothing") return {};
    if (const auto trained = context.node().trained)
      context.say("trained in " + trained->folder.string());
    if (act_ == "progress") {
      for (int i = 1; i <= 4; ++i)
        context.progress({.phase = i < 4 ? "train" : "validate", .step = i});
    }
    if (act_ == "source")
      context.say("in: " + inputs.source("in") + ", other: " + inputs.source("other"));
    std::int64_t sum = plus_;
    for (const auto& number : inputs.all<Number>("in")) sum += number->value;
    std::ofstream(context.node().folder / "sum") << sum;
    context.metric("sum", static_cast<double>(sum), 1);
    context.say("alive: " + std::to_string(Number::alive) + ", stages: " + std::to_string(alive) +
                ", seed " + std::to_string(context.node().seed) +
                (context.node().smoke ? ", smoke on " : " on ") + context.node().device);
    return {{"out", std::make_shared<Number>(sum)}};
  }

  static inline int alive = 0;

 private:
  const std::int64_t plus_;
  const std::string act_;
};

const StageKind kAdding{"test.adding", [](ConfigReader& reader) -> Result<std::unique_ptr<Stage>> {
                          std::int64_t plus = 0;
                          std::string act;
                          reader.read("plus", plus);
                          reader.read("act", act);
                          if (Diagnostics errors = reader.finish(); !errors.empty()) return errors;
                          return std::unique_ptr<Stage>(std::make_unique<AddingStage>(plus, act));
                        }};
const StageKind kForgetful{"test.forgetful", [](ConfigReader&) -> Result<std::unique_ptr<Stage>> {
                             return std::unique_ptr<Stage>(std::make_unique<AddingStage>(0, ""));
                           }};
const StageKind* const kKinds[] = {&kAdding, &kForgetful};

Node node(const std::string& id, std::int64_t plus, const std::string& act = "",
          std::vector<std::size_t> from = {}) {
  Node result{
      id, id.substr(0, id.find('.')), "test.adding", {}, "/" + id.substr(0, id.find('.')), {}, 7};
  result.options = from_json({{"plus", plus}, {"act", act}});
  for (const std::size_t index : from)
    result.inputs.push_back({"in", index, "out", ArtifactType::kMetrics});
  return result;
}

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() {
    std::string name = testing::TempDir() + "executor-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ExecutorTest() override { std::filesystem::remove_all(folder_); }

  Executor executor(std::vector<Node> nodes) {
    return Executor({"test", 0, std::nullopt, "cpu", 1, std::move(nodes)}, kKinds,
                    {.emit = [this](const Event& e) { events_.push_back(e); },
                     .is_cancelled = [this] { return cancelled_; },
                     .take_save_request = [] { return false; },
                     .sync_metrics = [this](const std::string&) { ++flushes_; },
                     .on_failure =
                         [this](const std::string& node, const std::exception& error) {
                           failed_.push_back(node + ": " + error.what());
                         },
                     .measure_peak_live = [] { return 4096; },
                     .clock = [this] { return now_ += std::chrono::milliseconds(60); }});
  }
  /// nullopt if it was stopped.
  std::optional<ExitCode> run(std::vector<Node> nodes, bool smoke = false, bool resume = false) {
    Executor made = executor(std::move(nodes));
    EXPECT_TRUE(made.create().empty());
    try {
      return made.run({.folder = folder_, .smoke = smoke, .resume = resume}, "cpu");
    } catch (const Cancelled&) {
      return std::nullopt;
    }
  }
  template <typename T>
  std::vector<T> all() const {
    std::vector<T> result;
    for (const Event& event : events_) {
      if (const T* found = std::get_if<T>(&event)) result.push_back(*found);
    }
    return result;
  }
  std::string only_error() const {
    const auto errors = all<Reported>();
    if (errors.size() != 1) return std::to_string(errors.size()) + " errors";
    const Diagnostic& d = errors[0].diagnostic;
    return name(d.code) + " " + d.pointer + ": " + d.message +
           (d.help.empty() ? "" : " | " + d.help);
  }

  std::filesystem::path folder_;
  std::vector<Event> events_;
  bool cancelled_ = false;
  std::vector<std::string> failed_;
  int flushes_ = 0;
  std::chrono::steady_clock::time_point now_;
};

/// Plans to need `needs` of 100 bytes, and outputs a stand-in.
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

/// A data stage that counts its runs, and finds no data until the file "data" is in the folder
/// `where`.
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
    auto executor = std::make_unique<Executor>(
        Graph{"test", 0, std::nullopt, "cpu", 1, std::move(nodes)}, kinds,
        ExecutorWorld{.emit = [this](const Event& e) { events_.push_back(e); },
                      .is_cancelled = [this] { return cancelled_; }});
    EXPECT_TRUE(executor->create().empty());
    return executor;
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
    auto executor = std::make_unique<Executor>(
        Graph{"test", 0, std::nullopt, "cpu", 1, std::move(nodes)}, kinds,
        ExecutorWorld{.emit = [this](const Event& e) { events_.push_back(e); },
                      .is_cancelled = [this] { return cancelled_; }});
    EXPECT_TRUE(executor->create().empty());
    return executor;
  }
  /// Three trainings whose weights a fourth node gathers, under `budget`.
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
      << "its own inputs are a node's own matter";
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
  EXPECT_TRUE(step({.resumed = folder_}).is_null()) << "it begins anew";
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

TEST_F(DryRunTest, UnplannableNodeIsNotRun) {
  const auto executor = made({node("train", 1)});
  EXPECT_TRUE(executor->plan({}, {}, /*strict=*/true, "cpu").empty());
  EXPECT_EQ(executor->planned()[0].state, DryNode::State::kUnknown);
}

TEST_F(ExecutorTest, StageKnowsTheSourceOfItsInputs) {
  run({node("a.0-1", 1), node("b", 10, "source", {0})});
  std::vector<std::string> said;
  for (const auto& line : all<Said>()) said.push_back(line.line);
  EXPECT_THAT(said, testing::Contains("in: a, other: other"));
}

TEST_F(ExecutorTest, PassesArtifactsAndFreesThemAfterTheirLastConsumer) {
  EXPECT_EQ(run({node("a", 1), node("b", 10, "", {0}), node("c", 100, "", {0, 1}),
                 node("d", 1000, "", {2})}),
            ExitCode::kDone);
  std::vector<double> sums;
  for (const auto& metric : all<NodeMetric>()) sums.push_back(metric.value);
  EXPECT_THAT(sums, ElementsAre(1, 11, 112, 1112));
  std::vector<std::string> said;
  for (const auto& line : all<Said>()) said.push_back(line.line);
  EXPECT_THAT(
      said,
      ElementsAre("alive: 0, stages: 4, seed 7 on cpu", "alive: 1, stages: 3, seed 7 on cpu",
                  "alive: 2, stages: 2, seed 7 on cpu", "alive: 1, stages: 1, seed 7 on cpu"));
  EXPECT_EQ(Number::alive, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "nodes/d/sum"));
}

TEST_F(ExecutorTest, NodeKnowsThatItHasBeenTrained) {
  Executor made = executor({node("a", 1), node("b.0", 1)});
  EXPECT_TRUE(made.create().empty());
  made.run(
      {.folder = folder_, .trained = {{"b.0", {"elsewhere", CheckpointSource::Choice::kBest}}}},
      "cpu");
  std::vector<std::string> said;
  for (const auto& line : all<Said>()) said.push_back(line.node + ": " + line.line.substr(0, 20));
  EXPECT_THAT(said, ElementsAre("a: alive: 0, stages: 2,", "b.0: trained in elsewhere",
                                "b.0: alive: 0, stages: 1,"));
}

TEST_F(ExecutorTest, UnusedOutputIsFreedImmediately) {
  run({node("a", 1), node("b", 1)});
  EXPECT_EQ(all<Said>().at(1).line, "alive: 0, stages: 1, seed 7 on cpu");
}

TEST_F(ExecutorTest, ReportsStartTimeAndPeakOfEachNode) {
  run({node("a", 1)}, /*smoke=*/true);
  EXPECT_EQ(all<NodeStarted>().at(0).node, "a");
  EXPECT_EQ(all<NodeFinished>().at(0).node, "a");
  EXPECT_NEAR(all<NodeFinished>().at(0).seconds, 0.06, 1e-9);
  EXPECT_EQ(all<NodeFinished>().at(0).peak_memory_bytes, 4096);
  EXPECT_THAT(all<Said>().at(0).line, HasSubstr("smoke on cpu"));
}

TEST_F(ExecutorTest, CreateReportsEveryMistakeOnce) {
  Node unknown = node("x", 1);
  unknown.kind = "test.unknown";
  Node forgetful = node("y", 1);
  forgetful.kind = "test.forgetful";
  forgetful.options = from_json({{"plus", 1}});
  Node first = node("z.0", 1), second = node("z.1", 1);
  first.options = second.options = from_json({{"plus", "one"}, {"act", ""}});
  std::vector<std::string> lines;
  for (const auto& error : executor({unknown, forgetful, first, second}).create()) {
    lines.push_back(name(error.code) + " " + error.pointer + ": " + error.message);
  }
  EXPECT_THAT(lines,
              ElementsAre("E0313 /x/kind: this worker cannot run stages of kind 'test.unknown'",
                          "E0315 /y/plus: nothing reads 'plus'",
                          "E0302 /z/plus: 'plus' must be an integer, not \"one\""));
  EXPECT_EQ(AddingStage::alive, 0);
}

TEST_F(ExecutorTest, StageErrorKeepsCodeLocationAndHelp) {
  EXPECT_EQ(run({node("data", 1, "stage error"), node("later", 1)}), ExitCode::kMissingInput);
  EXPECT_EQ(only_error(), "E0601 /data/root: no folder 'x' | make it");
  EXPECT_EQ(all<NodeStarted>().size(), 1u);
  EXPECT_TRUE(all<NodeFinished>().empty());
}

TEST_F(ExecutorTest, NodeThatMayContinueOnAnotherDeviceIsStranded) {
  EXPECT_EQ(run({node("a", 1, "stranded")}), ExitCode::kNeedsAnotherDevice);
  const auto* stranded = std::get_if<Stranded>(&events_.back());
  ASSERT_TRUE(stranded);
  EXPECT_EQ(stranded->node, "a");
  EXPECT_THAT(stranded->to, ElementsAre("gpu", "cpu"));
  EXPECT_EQ(stranded->retries, 2);
  EXPECT_EQ(stranded->incident, (Recovery{.cause = "out of memory", .taken = 60}));
  EXPECT_EQ(stranded->error.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(stranded->error.message, "no memory");
  EXPECT_EQ(stranded->error.pointer, "/a");
  EXPECT_EQ(stranded->error.help, "use less");
}

TEST_F(ExecutorTest, NodeErrorsArePassedToTheWorld) {
  run({node("a", 1, "torch oom")});
  EXPECT_THAT(failed_, ElementsAre("a: CUDA out of memory. Tried to allocate 2.00 GiB"));
}

TEST_F(ExecutorTest, ErrorOfOneItemNamesIt) {
  run({node("data.0-1", 1, "stage error")});
  EXPECT_EQ(only_error(), "E0601 /data/root: data.0-1: no folder 'x' | make it");
}

TEST_F(ExecutorTest, OnlyTheFirstLineOfALibTorchErrorIsReported) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run({node("train", 1, "torch")}), ExitCode::kRunFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "mat1 and mat2 cannot be multiplied\nException raised from here\n");
  EXPECT_EQ(only_error(), "E0701 /train: mat1 and mat2 cannot be multiplied");
}

TEST_F(ExecutorTest, OutOfMemoryIsReportedClearly) {
  run({node("train", 1, "bad_alloc")});
  EXPECT_EQ(
      only_error(),
      "E0706 /train: out of memory | use a smaller memory.micro_batch, train.batch_size or model");
  events_.clear();
  run({node("train", 1, "torch oom")});
  EXPECT_EQ(
      only_error(),
      "E0706 /train: out of memory: CUDA out of memory. Tried to allocate 2.00 GiB | use a smaller "
      "memory.micro_batch, train.batch_size or model");
}

TEST_F(ExecutorTest, NondeterministicOperationIsReported) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run({node("train", 1, "nondeterministic")}), ExitCode::kRunFailed);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(only_error(),
            "E0710 /train: the operation 'put_' has no deterministic implementation on this device "
            "| set determinism: warn to continue with a warning, or determinism: off; most "
            "operations are deterministic on device=cpu");
}

TEST_F(ExecutorTest, StageKnowsItsObserver) {
  run({node("train", 1, "observed")});
  EXPECT_EQ(only_error(), "E0701 /train: alone");
  events_.clear();
  Observer observer;
  Executor made = executor({node("train", 1, "observed")});
  EXPECT_TRUE(made.create().empty());
  made.run({.folder = folder_, .observer = &observer}, "cpu");
  EXPECT_EQ(only_error(), "E0701 /train: observed");
}

TEST_F(ExecutorTest, FullDiskHasItsOwnExitCode) {
  EXPECT_EQ(run({node("train", 1, "disk full")}), ExitCode::kCannotWrite);
  EXPECT_EQ(only_error(),
            "E0804 /train: weights: No space left on device | free up space, then run again");
}

TEST_F(ExecutorTest, ExceptionOfAnyTypeIsCaught) {
  EXPECT_EQ(run({node("train", 1, "strange")}), ExitCode::kRunFailed);
  EXPECT_EQ(only_error(), "E0701 /train: an exception of unknown type");
}

TEST_F(ExecutorTest, MissingRequiredOutputIsReported) {
  EXPECT_EQ(run({node("a", 1, "nothing"), node("b", 1, "", {0})}), ExitCode::kRunFailed);
  EXPECT_EQ(only_error(), "E0701 /b: 'a' has no 'out', which this stage needs");
}

TEST_F(ExecutorTest, MissingOptionalOutputIsAccepted) {
  Node consumer = node("b", 1, "", {0});
  consumer.inputs[0].optional = true;
  EXPECT_EQ(run({node("a", 1, "nothing"), consumer}), ExitCode::kDone);
}

TEST_F(ExecutorTest, CancelledRunEndsWithoutAnError) {
  EXPECT_EQ(run({node("a", 1, "cancel"), node("b", 1)}), std::nullopt);
  EXPECT_TRUE(all<Reported>().empty());
  EXPECT_EQ(all<NodeStarted>().size(), 1u);
  cancelled_ = true;
  events_.clear();
  EXPECT_EQ(run({node("a", 1)}), std::nullopt);
  EXPECT_TRUE(events_.empty());
}

TEST_F(ExecutorTest, ResumedRunSkipsFinishedNodesThatAreNotNeeded) {
  const auto nodes = [](const std::string& act) {
    return std::vector{node("a", 1), node("b", 10, "", {0}), node("c", 100, "", {0}),
                       node("d", 1000, act, {2})};
  };
  EXPECT_EQ(run(nodes("cancel")), std::nullopt);
  EXPECT_EQ(flushes_, 3);
  events_.clear();
  EXPECT_EQ(run(nodes("cancel"), false, true), std::nullopt);
  std::vector<std::string> started, finished;
  for (const auto& event : all<NodeStarted>()) started.push_back(event.node);
  for (const auto& event : all<NodeFinished>()) finished.push_back(event.node);
  EXPECT_THAT(started, ElementsAre("a", "c", "d"));
  EXPECT_THAT(finished, ElementsAre("a", "b", "c"));
  EXPECT_EQ(Number::alive, 0);
}

TEST_F(ExecutorTest, FinishedNodeWithChangedOptionsIsRunAgain) {
  EXPECT_EQ(run({node("a", 1), node("b", 10, "", {0})}), ExitCode::kDone);
  for (const auto& [plus, runs] : {std::pair(1, 0u), std::pair(2, 2u)}) {
    events_.clear();
    EXPECT_EQ(run({node("a", plus), node("b", 10, "", {0})}, false, true), ExitCode::kDone);
    EXPECT_EQ(all<NodeStarted>().size(), runs);
    EXPECT_EQ(all<NodeFinished>().size(), 2u);
  }
  // A damaged file, and one of a future version.
  auto finished = nlohmann::json::parse(std::ifstream(folder_ / "nodes/b/finished.json"));
  finished["schema"] = 2;
  for (const std::string& text : {std::string("{"), finished.dump()}) {
    std::ofstream(folder_ / "nodes/b/finished.json") << text;
    events_.clear();
    EXPECT_EQ(run({node("a", 2), node("b", 10, "", {0})}, false, true), ExitCode::kDone);
    EXPECT_EQ(all<NodeStarted>().size(), 2u) << text;
  }
}

TEST_F(ExecutorTest, NodeIsFinishedOnlyWhenItsMetricsAreOnTheDisk) {
  std::vector<bool> was_finished;
  Executor made(
      {"test", 0, std::nullopt, "cpu", 1, {node("a", 1)}}, kKinds,
      {.emit = [](const Event&) {},
       .is_cancelled = [] { return false; },
       .sync_metrics =
           [&](const std::string&) {
             was_finished.push_back(std::filesystem::exists(folder_ / "nodes/a/finished.json"));
           },
       .measure_peak_live = [] { return 0; }});
  EXPECT_TRUE(made.create().empty());
  EXPECT_EQ(made.run({.folder = folder_}, "cpu"), ExitCode::kDone);
  EXPECT_THAT(was_finished, ElementsAre(false));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "nodes/a/finished.json"));
}

TEST_F(ExecutorTest, StageThatReturnsAfterASignalHasNotFinished) {
  bool is_cancelled = false;
  Executor made({"test", 0, std::nullopt, "cpu", 1, {node("a", 1)}}, kKinds,
                {.emit =
                     [&](const Event& event) {
                       is_cancelled = is_cancelled || std::holds_alternative<Said>(event);
                     },
                 .is_cancelled = [&] { return is_cancelled; },
                 .sync_metrics = [](const std::string&) {},
                 .measure_peak_live = [] { return 0; }});
  EXPECT_TRUE(made.create().empty());
  EXPECT_THROW(made.run({.folder = folder_}, "cpu"), Cancelled);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nodes/a/finished.json"));
}

TEST_F(ExecutorTest, NodeFoldersSurviveAPowerCut) {
  const WatchedCalls calls;
  run({node("a", 1)});
  for (const auto& folder : {folder_, folder_ / "nodes", folder_ / "nodes/a"})
    EXPECT_THAT(calls.flushed(), testing::Contains(folder.string()));
}

TEST_F(ExecutorTest, ProgressIsThinnedButPhasesAreAlwaysShown) {
  run({node("a", 1, "progress")});
  std::vector<std::int64_t> steps;  // the clock advances by 60 ms per reading
  for (const auto& progress : all<NodeProgress>()) steps.push_back(progress.progress.step);
  EXPECT_THAT(steps, ElementsAre(1, 3, 4));
}

TEST_F(ExecutorTest, NodeFolderThatCannotBeCreatedIsAnError) {
  std::ofstream(folder_ / "nodes") << "in the way";
  EXPECT_EQ(run({node("a", 1)}), ExitCode::kRunFailed);
  EXPECT_THAT(only_error(), HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace runner
