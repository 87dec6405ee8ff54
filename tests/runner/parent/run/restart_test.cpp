#include "runner/parent/run/restart.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/error/diagnostic.h"

namespace runner {
namespace {

/// A training node with a memory policy, by default on a GPU.
class RestartRuleTest : public testing::Test {
 protected:
  RestartRuleTest() {
    allow("auto", {"replan", "stop"});
    graph_.nodes.push_back({.id = "train",
                            .stage = "train",
                            .kind = "train.fake",
                            .options = {},
                            .pointer = "/train"});
    graph_.nodes[1].inputs.push_back(
        {.input = "memory", .from = 0, .output = "memory", .type = {}});
  }
  void allow(const std::string& most, const std::vector<std::string>& order) {
    Value::List words;
    for (const std::string& word : order) words.push_back({word, {}});
    Value retries{most, {}};
    if (most != "auto") retries.data = std::int64_t{std::stoi(most)};
    if (graph_.nodes.empty())
      graph_.nodes.push_back({.id = "memory",
                              .stage = "memory",
                              .kind = "memory.policy",
                              .options = {},
                              .pointer = "/memory"});
    graph_.nodes[0].options =
        Value{Value::Map{{"max_retries", {}, retries}, {"on_oom", {}, {std::move(words), {}}}}, {}};
  }
  /// A worker that starts on `device`, continues after `resumed` metrics if there are any, and
  /// saves `saves` times.
  void begin(RestartRule& rule, int resumed = 0, int saves = 0,
             const std::string& device = "cuda:0") {
    rule.see(Ready{device, 2});
    rule.see(NodeStarted{"train"});
    if (resumed > 0) rule.see(Resumed{"train", resumed});
    for (int i = 0; i < saves; ++i) rule.see(Flush{"train"});
  }
  static Ending lost() { return {.exit = ExitCode::kDeviceLost, .errors = {}}; }
  static Ending killed(int signal = SIGKILL) {
    return {.exit = ExitCode::kRunFailed,
            .errors = {{ErrorCode::kWorkerDied, {}, "", "", ""}},
            .killed_by = signal};
  }
  static Stranded stranded(std::vector<std::string> to) {
    return {"train",
            std::move(to),
            3,
            {ErrorCode::kOutOfMemory, {}, "/train", "out of memory", "use less"},
            {.cause = "out of memory", .step = 7, .tried = 40, .taken = 60, .limit = 64}};
  }
  static Ending needs_another() { return {.exit = ExitCode::kNeedsAnotherDevice, .errors = {}}; }

  static Diagnostic none_left() {
    return {ErrorCode::kDeviceUnavailable, {}, "", "every GPU with enough memory is in use", "",
            {{{}, "GPU 1: 0 B free"}}};
  }

  Graph graph_;
  std::vector<int> gpus_;  // indices of free GPUs
  Diagnostic why_none_ = none_left();
  TakeOtherGpu other_gpu_ = [this]() -> Result<OwnDevice> {
    if (gpus_.empty()) return why_none_;
    OwnDevice own{
        .taken = {.select = "cuda:0", .device = DeviceFacts{.index = gpus_.front(), .name = "L4"}},
        .record = {{"index", gpus_.front()}}};
    gpus_.erase(gpus_.begin());
    return own;
  };
};

TEST_F(RestartRuleTest, LostDeviceContinuesFromTheLastCheckpoint) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 2);
  const auto restart = rule.after(lost());
  ASSERT_TRUE(restart);
  EXPECT_FALSE(restart->device);
  EXPECT_FALSE(restart->restarts.has_moved);
  EXPECT_EQ(restart->restarts.plans, 0);
  EXPECT_EQ(restart->line,
            "the device 'cuda:0' failed: continuing from the last checkpoint, restart 1");
  EXPECT_EQ(restart->recovery,
            (Recovery{.cause = "device lost", .from = "cuda:0", .to = "cuda:0"}));
  EXPECT_EQ(restart->node, "train");
}

TEST_F(RestartRuleTest, KilledWorkerContinuesFromTheLastCheckpoint) {
  allow("3", {"replan", "stop"});
  RestartRule rule(graph_, other_gpu_);
  begin(rule);
  const auto restart = rule.after(killed());
  ASSERT_TRUE(restart);
  EXPECT_EQ(restart->line,
            "the worker was killed: continuing from the last checkpoint, restart 1 of 3");
  EXPECT_EQ(restart->recovery.cause, "killed");
}

TEST_F(RestartRuleTest, RestartsAtMostAsOftenAsTheRecipeAllows) {
  allow("2", {"replan", "stop"});
  RestartRule rule(graph_, other_gpu_);
  for (int i = 0; i < 2; ++i) {
    begin(rule, 10 * i, 2);
    EXPECT_TRUE(rule.after(lost())) << i;
  }
  begin(rule, 20, 2);
  EXPECT_FALSE(rule.after(lost()));
  const Diagnostics errors = rule.errors_of(lost());
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].code, ErrorCode::kDeviceLost);
  EXPECT_EQ(errors[0].message,
            "the device 'cuda:0' failed and cannot be used again by the same process");
  EXPECT_EQ(errors[0].help, "it failed again after the run was restarted: try a different device");
}

TEST_F(RestartRuleTest, RunEndsWithoutRetriesOrReplan) {
  allow("0", {"replan", "stop"});
  RestartRule none(graph_, other_gpu_);
  begin(none, 0, 2);
  EXPECT_FALSE(none.after(killed()));
  EXPECT_FALSE(none.after(lost()));
  EXPECT_EQ(none.errors_of(lost())[0].help,
            "set memory.max_retries to restart the run automatically");
  allow("auto", {"stop"});
  RestartRule stop(graph_, other_gpu_);
  begin(stop, 0, 2);
  EXPECT_FALSE(stop.after(killed()));
}

TEST_F(RestartRuleTest, RunEndsWithoutAPolicy) {
  graph_.nodes.erase(graph_.nodes.begin());
  graph_.nodes[0].inputs.clear();
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 2);
  EXPECT_FALSE(rule.after(killed()));
}

TEST_F(RestartRuleTest, PolicyComesFromTheActiveNode) {
  Node other = graph_.nodes[0];
  other.id = other.stage = "none";
  other.options = Value{
      Value::Map{{"max_retries", {}, {std::int64_t{0}, {}}}, {"on_oom", {}, {Value::List(), {}}}},
      {}};
  graph_.nodes.push_back(other);
  graph_.nodes.push_back(
      {.id = "again", .stage = "again", .kind = "train.fake", .options = {}, .pointer = "/again"});
  graph_.nodes[3].inputs.push_back({.input = "memory", .from = 2, .output = "memory", .type = {}});
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 2);
  EXPECT_TRUE(rule.after(killed()));
  begin(rule, 0, 2);
  rule.see(NodeStarted{"again"});
  EXPECT_FALSE(rule.after(killed()));
}

TEST_F(RestartRuleTest, LostDeviceWithoutProgressStopsTheRun) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 2);
  EXPECT_TRUE(rule.after(lost()));
  begin(rule, 10);
  EXPECT_TRUE(rule.after(lost())) << "it began later than the previous one";
  begin(rule, 10);
  EXPECT_FALSE(rule.after(lost()));
}

TEST_F(RestartRuleTest, NewCheckpointFinishedNodeOrLaterStartCountsAsProgress) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule);
  EXPECT_TRUE(rule.after(lost()));
  for (int resumed : {5, 6, 7}) {
    begin(rule, resumed, 1);
    EXPECT_TRUE(rule.after(lost())) << resumed;
  }
  begin(rule, 7, 2);  // the second save shows that the first is complete
  EXPECT_TRUE(rule.after(lost()));
  begin(rule, 7);
  rule.see(NodeFinished{"train", 1, 0});
  EXPECT_TRUE(rule.after(lost()));
  begin(rule, 0);
  rule.see(NodeFinished{"train", 1, 0});  // again, since it had finished before
  EXPECT_FALSE(rule.after(lost()));
}

TEST_F(RestartRuleTest, CpuKillsWithoutProgressContinueWithTheNextPlan) {
  RestartRule rule(graph_, other_gpu_);
  std::vector<std::int64_t> plans;
  for (int i = 0; i < 4; ++i) {
    begin(rule, 0, 0, "cpu");
    const auto restart = rule.after(killed());
    ASSERT_TRUE(restart);
    plans.push_back(restart->restarts.plans);
    if (i == 1)
      EXPECT_EQ(restart->line,
                "the worker was killed: continuing from the last checkpoint, in a way that needs "
                "less memory, restart 2");
  }
  EXPECT_THAT(plans, testing::ElementsAre(0, 1, 2, 3));
  begin(rule, 10, 2, "cpu");
  EXPECT_EQ(rule.after(killed())->restarts.plans, 0) << "the checkpoint contains the plan";
}

TEST_F(RestartRuleTest, GpuKillsWithoutProgressStopTheRun) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule);
  EXPECT_TRUE(rule.after(killed()));
  begin(rule);
  EXPECT_FALSE(rule.after(killed())) << "smaller micro-batches need as much host memory";
}

TEST_F(RestartRuleTest, CrashesErrorsAndInterruptsCauseNoRestart) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 2);
  EXPECT_FALSE(rule.after(killed(SIGSEGV)));
  EXPECT_FALSE(rule.after({.exit = ExitCode::kRunFailed, .errors = {}}));
  EXPECT_FALSE(rule.after({.exit = ExitCode::kDone, .errors = {}}));
  Ending stopped = lost();
  stopped.exit = ExitCode::kInterrupted;
  EXPECT_FALSE(rule.after(stopped));
  Ending killed_at_last = killed();  // by the second Ctrl-C
  killed_at_last.exit = ExitCode::kInterrupted;
  EXPECT_FALSE(rule.after(killed_at_last));
}

TEST_F(RestartRuleTest, WorkerThatDiesBeforeItIsReadyEndsTheRun) {
  RestartRule rule(graph_, other_gpu_);
  EXPECT_FALSE(rule.after(killed()));
}

TEST_F(RestartRuleTest, StrandedNodeContinuesOnAnotherGpu) {
  gpus_ = {1};
  RestartRule rule(graph_, other_gpu_, "GPU 0 (L4)");
  begin(rule, 0, 1);
  rule.see(stranded({"gpu", "cpu"}));
  const auto restart = rule.after(needs_another());
  ASSERT_TRUE(restart);
  ASSERT_TRUE(restart->device);
  EXPECT_EQ(restart->device->record["index"], 1);
  EXPECT_EQ(restart->restarts.retries, 3);
  EXPECT_TRUE(restart->restarts.has_moved);
  EXPECT_EQ(restart->node, "train");
  EXPECT_EQ(restart->line, "continues on GPU 1 (L4) instead of GPU 0 (L4): out of memory");
  EXPECT_EQ(restart->recovery, (Recovery{.cause = "out of memory",
                                         .step = 7,
                                         .tried = 40,
                                         .taken = 60,
                                         .limit = 64,
                                         .from = "GPU 0 (L4)",
                                         .to = "GPU 1 (L4)"}));
}

TEST_F(RestartRuleTest, NextFallbackIsUsedIfNoOtherGpuIsFree) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 1);
  rule.see(stranded({"gpu", "cpu"}));
  const auto restart = rule.after(needs_another());
  ASSERT_TRUE(restart);
  ASSERT_TRUE(restart->device);
  EXPECT_EQ(restart->device->taken.select, "cpu");
  EXPECT_EQ(restart->device->taken.why, "the memory of cuda:0 ran out");
  EXPECT_EQ(restart->line,
            "continues on cpu instead of cuda:0: out of memory; the CPU is slower, and its results "
            "differ in their last bits; no other GPU: every GPU with enough memory is in use");
  EXPECT_EQ(restart->recovery.from, "cuda:0");
  EXPECT_EQ(restart->recovery.to, "cpu");
}

TEST_F(RestartRuleTest, GpusAreUsedBeforeTheCpu) {
  gpus_ = {1, 2};
  RestartRule rule(graph_, other_gpu_, "GPU 0 (L4)");
  std::vector<std::string> froms, tos;
  for (int i = 0; i < 3; ++i) {
    begin(rule, 0, 1);
    rule.see(stranded({"gpu", "cpu"}));
    const auto restart = rule.after(needs_another());
    ASSERT_TRUE(restart);
    froms.push_back(restart->recovery.from);
    tos.push_back(restart->recovery.to);
  }
  EXPECT_THAT(froms, testing::ElementsAre("GPU 0 (L4)", "GPU 1 (L4)", "GPU 2 (L4)"));
  EXPECT_THAT(tos, testing::ElementsAre("GPU 1 (L4)", "GPU 2 (L4)", "cpu"));
}

TEST_F(RestartRuleTest, GpusAreNotSearchedIfTheRecipePutsTheCpuFirst) {
  gpus_ = {1};
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 1);
  rule.see(stranded({"cpu", "gpu"}));
  EXPECT_EQ(rule.after(needs_another())->recovery.to, "cpu");
  EXPECT_EQ(gpus_.size(), 1);
}

TEST_F(RestartRuleTest, NodeErrorExplainsThatNoDeviceIsLeft) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 1);
  rule.see(stranded({"gpu"}));
  EXPECT_FALSE(rule.after(needs_another()));
  EXPECT_FALSE(rule.stopped());
  const Diagnostics errors = rule.errors_of(needs_another());
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(errors[0].message, "out of memory");
  ASSERT_EQ(errors[0].notes.size(), 2);
  EXPECT_EQ(errors[0].notes[0].message, "no other GPU: every GPU with enough memory is in use");
  EXPECT_EQ(errors[0].notes[1].message, "GPU 1: 0 B free");
}

TEST_F(RestartRuleTest, SignalThatEndsTheWaitForAGpuEndsTheRun) {
  why_none_ = stopped_by(SIGTERM, "after waiting 2 min for a GPU");
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 1);
  rule.see(stranded({"gpu", "cpu"}));
  EXPECT_FALSE(rule.after(needs_another()));
  EXPECT_EQ(rule.stopped(), ExitCode::kTerminated);
}

TEST_F(RestartRuleTest, WorkerIsMarkedAsMovedUntilItSaves) {
  gpus_ = {1};
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 1);
  rule.see(stranded({"gpu"}));
  EXPECT_TRUE(rule.after(needs_another())->restarts.has_moved);
  begin(rule, 1, 1);
  EXPECT_TRUE(rule.after(lost())->restarts.has_moved)
      << "the plan that it began with is for the other GPU";
  begin(rule, 2, 2);  // the second save shows that the first is complete
  EXPECT_FALSE(rule.after(lost())->restarts.has_moved);
}

TEST_F(RestartRuleTest, NodeStrandedOnTheCpuDoesNotReturnToIt) {
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 1, "cpu");
  rule.see(stranded({"cpu"}));
  EXPECT_FALSE(rule.after(needs_another()));
}

TEST_F(RestartRuleTest, RestartsAreCountedPerDevice) {
  allow("1", {"replan", "cpu", "stop"});
  RestartRule rule(graph_, other_gpu_);
  begin(rule, 0, 2);
  EXPECT_TRUE(rule.after(lost()));
  begin(rule, 1, 2);
  rule.see(stranded({"cpu"}));
  EXPECT_TRUE(rule.after(needs_another()));
  begin(rule, 2, 2, "cpu");
  EXPECT_TRUE(rule.after(killed()));
  begin(rule, 3, 2, "cpu");
  EXPECT_FALSE(rule.after(killed()));
}

}  // namespace
}  // namespace runner
