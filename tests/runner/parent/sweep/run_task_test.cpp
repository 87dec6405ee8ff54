#include "runner/parent/sweep/run_task.h"

#include <gmock/gmock.h>

#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/task_account.h"
#include "tests/support/program.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A task with a shell script as its trial; `does` is one line of the script.
class RunTask : public testing::Test {
 protected:
  void SetUp() override {
    here_ = std::filesystem::current_path();
    std::filesystem::create_directories(SweepLayout(sweep()).recipes());
    SweepPlan plan{.recipe = "small", .overrides = {}, .folder = folder_.path(), .trials = {}};
    for (std::uint64_t number = 0; number < 3; ++number)
      plan.trials.push_back({.number = number, .hash = "aa", .settings = {}});
    SweepJournal::make(sweep(), plan);
    write_submission({.number = 1,
                      .name = "retort-a-1",
                      .trials = {0, 2},
                      .attempts_before = {0, 0},
                      .run_arguments = {"--reuse"},
                      .resume_arguments = {"--force"}},
                     sweep());
  }
  void TearDown() override { std::filesystem::current_path(here_); }
  std::filesystem::path sweep() const { return folder_ / "sweep"; }
  Result<ExitCode> run(const std::string& does, const std::string& index = "1",
                       const std::string& requeue = "", const std::string& ranks = "") {
    folder_.write("retort",
                  "#!/bin/sh\necho \"$@\" >>calls\n"
                  "finish() { mkdir -p sweep/2; echo '{\"status\": \"finished\"}' "
                  ">sweep/2/summary.json; }\n" +
                      does + "\n");
    std::filesystem::permissions(folder_ / "retort", std::filesystem::perms::owner_all);
    return run_task(
        sweep() / "launch/1", index,
        {.program = folder_ / "retort", .name = "on a", .requeue = requeue, .ranks = ranks});
  }
  std::vector<std::string> account() const {
    std::vector<std::string> all;
    for (const TaskEvent& event : TaskAccount::read(sweep() / "launch/1/1.jsonl"))
      all.push_back(std::string(name(event.state)) + " " + std::to_string(event.exit));
    return all;
  }

  TemporaryFolder folder_;
  std::filesystem::path here_;
};

TEST_F(RunTask, RunsTheTrialOfItsIndex) {
  const auto code = run("finish");
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, ExitCode::kDone);
  EXPECT_EQ(file_text(folder_ / "calls"), "run " + (sweep() / "recipes/2.yaml").string() +
                                              " run.dir=" + (sweep() / "2").string() +
                                              " -q --grace 0 --reuse\n");
  EXPECT_THAT(account(), ElementsAre("running 0", "finished 0"));
}

TEST_F(RunTask, LauncherStartsTheTrialOncePerRank) {
  folder_.write("srun", "#!/bin/sh\nshift\nSAID=1 \"$@\" && \"$@\"\n");
  std::filesystem::permissions(folder_ / "srun", std::filesystem::perms::owner_all);
  const auto code = run("echo \"said $SAID\" >>calls; finish", "1", "",
                        (folder_ / "srun").string() + " --ntasks=2");
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, ExitCode::kDone);
  const std::string call = "run " + (sweep() / "recipes/2.yaml").string() +
                           " run.dir=" + (sweep() / "2").string() + " -q --grace 0 --reuse\n";
  EXPECT_EQ(file_text(folder_ / "calls"), call + "said 1\n" + call + "said \n");
}

TEST_F(RunTask, ResumedTrialUsesForce) {
  for (const auto& [name, text] :
       {std::pair{"run.json", R"({"schema": 1})"}, std::pair{"recipe.yaml", "schema: 1\n"},
        std::pair{"environment.json", R"({"device": "cpu", "threads": 1})"}})
    folder_.write("sweep/2/.retort/" + std::string(name), text);
  const auto code = run("finish");
  ASSERT_TRUE(code);
  EXPECT_EQ(file_text(folder_ / "calls"),
            "resume " + (sweep() / "2").string() + " -q --grace 0 --force\n");
}

TEST_F(RunTask, FinishedTrialIsNotRunAgain) {
  ASSERT_TRUE(run("finish"));
  const auto again = run("exit 1");
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, ExitCode::kDone);
  EXPECT_THAT(account(), ElementsAre("running 0", "finished 0", "finished 0"));
}

TEST_F(RunTask, FailureIsRecordedWithItsReason) {
  const auto code = run("echo first; echo 'a.yaml:1:2: error[E0706]: out of memory'; exit 1");
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, ExitCode::kRunFailed);
  const TaskEvent end = TaskAccount::read(sweep() / "launch/1/1.jsonl").back();
  EXPECT_EQ(end.reason, "error[E0706]: out of memory");
  EXPECT_THAT(end.said, ElementsAre("first", "a.yaml:1:2: error[E0706]: out of memory"));
}

TEST_F(RunTask, KilledRunIsRetriedAFewTimes) {
  const auto code = run("if [ -e once ]; then finish; else touch once; kill -9 $$; fi");
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, ExitCode::kDone);
  EXPECT_THAT(account(), ElementsAre("running 0", "interrupted 137", "running 0", "finished 0"));
  std::filesystem::remove_all(sweep() / "2");
  ASSERT_TRUE(run("kill -9 $$"));
  EXPECT_EQ(account().back(), "failed 137");
  EXPECT_EQ(account().size(), 10u) << "three more attempts";
}

/// The trial itself sends the signal to this process, which is the task.
class RunTaskSignal : public RunTask, public testing::WithParamInterface<const char*> {};

TEST_P(RunTaskSignal, MakesTheTrialSave) {
  const auto code = run("trap 'exit 75' TERM; kill -" + std::string(GetParam()) +
                            " $PPID; while :; do sleep 0.01; done",
                        "1", "touch requeued");
  ASSERT_TRUE(code);
  EXPECT_EQ(*code, ExitCode::kStoppedAfterSave);
  EXPECT_THAT(account(), ElementsAre("running 0", "interrupted 75"));
  EXPECT_EQ(std::filesystem::exists(folder_ / "requeued"), GetParam() == std::string("USR1"))
      << "only on the signal for its time limit";
}

INSTANTIATE_TEST_SUITE_P(All, RunTaskSignal, testing::Values("USR1", "TERM"));

TEST_F(RunTask, UnknownIndexIsRejected) {
  for (const char* index : {"2", "-1", "x", "", "99999999999999999999"}) {
    const auto code = run("finish", index);
    ASSERT_FALSE(code) << index;
    EXPECT_EQ(code.errors().front().code, ErrorCode::kUsage);
    EXPECT_THAT(code.errors().front().message,
                HasSubstr("has no task '" + std::string(index) + "'"));
  }
}

}  // namespace
}  // namespace runner
