#include "runner/worker/executor.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/executor_fixture.h"
#include "tests/support/system_calls.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

TEST_F(ExecutorTest, NodeKnowsWhetherItHasBeenTrained) {
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

TEST_F(ExecutorTest, NodeErrorsArePassedToTheFailureCallback) {
  run({node("a", 1, "torch oom")});
  EXPECT_THAT(failed_, ElementsAre("a: CUDA out of memory. Tried to allocate 2.00 GiB"));
}

TEST_F(ExecutorTest, ErrorInAForeachItemNamesTheItem) {
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

TEST_F(ExecutorTest, CanceledRunEndsWithoutAnError) {
  EXPECT_EQ(run({node("a", 1, "cancel"), node("b", 1)}), std::nullopt);
  EXPECT_TRUE(all<Reported>().empty());
  EXPECT_EQ(all<NodeStarted>().size(), 1u);
  canceled_ = true;
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
  // A finished.json that is damaged or from a future version counts as unfinished.
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
       .is_canceled = [] { return false; },
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
  bool is_canceled = false;
  Executor made({"test", 0, std::nullopt, "cpu", 1, {node("a", 1)}}, kKinds,
                {.emit =
                     [&](const Event& event) {
                       is_canceled = is_canceled || std::holds_alternative<Said>(event);
                     },
                 .is_canceled = [&] { return is_canceled; },
                 .sync_metrics = [](const std::string&) {},
                 .measure_peak_live = [] { return 0; }});
  EXPECT_TRUE(made.create().empty());
  EXPECT_THROW(made.run({.folder = folder_}, "cpu"), Canceled);
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
