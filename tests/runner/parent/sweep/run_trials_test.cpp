#include "runner/parent/sweep/run_trials.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "runner/parent/sweep/sweep_journal.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Sweeps with a shell script as their trials: the file does/N contains the line for trial N.
class RunTrials : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(SweepLayout(sweep()).recipes());
    folder_.write("does/any", "finish");
    folder_.write(
        "retort",
        "#!/bin/sh\n"
        "cd '" +
            folder_.path().string() +
            "'\n"
            "finish() { mkdir -p \"$dir\"; echo '{\"status\": \"finished\", \"metrics\": {}}' "
            ">\"$dir/summary.json\"; }\n"
            "dir=${3#run.dir=}\n"
            "number=$(basename \"$dir\")\n"
            "echo \"$number\" >>calls\n"
            "if [ -e does/$number ]; then . does/$number; else . does/any; fi\n");
    std::filesystem::permissions(folder_ / "retort", std::filesystem::perms::owner_all);
  }
  std::filesystem::path sweep() const { return folder_ / "sweep"; }
  void does(int trial, const std::string& line) {
    folder_.write("does/" + std::to_string(trial), line);
  }
  SweepPlan plan(std::uint64_t trials) const {
    SweepPlan plan{.recipe = "small", .overrides = {}, .folder = folder_.path(), .trials = {}};
    for (std::uint64_t number = 0; number < trials; ++number)
      plan.trials.push_back({.number = number,
                             .hash = "aa",
                             .settings = {"data.root=photos", "seed=" + std::to_string(number)}});
    return plan;
  }
  ExitCode run(SweepJournal& journal, const TrialOptions& options = {}) {
    err_.str("");
    return run_trials(journal, options, {.program = folder_ / "retort", .err = err_});
  }
  std::vector<std::string> states(const SweepJournal& journal) const {
    std::vector<std::string> all;
    for (const Trial& trial : journal.trials()) all.emplace_back(name(trial.state));
    return all;
  }
  std::string calls() const { return file_text(folder_ / "calls"); }

  TemporaryFolder folder_;
  std::ostringstream err_;
};

TEST_F(RunTrials, RunsEachTrialInTurn) {
  auto journal = SweepJournal::make(sweep(), plan(3));
  EXPECT_EQ(run(journal), ExitCode::kDone);
  EXPECT_EQ(calls(), "0\n1\n2\n");
  EXPECT_THAT(states(journal), ElementsAre("finished", "finished", "finished"));
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("trial 0 started (seed=0)\n"),
                                HasSubstr("trial 2 finished in 0:00:00: 3 of 3")));
  EXPECT_EQ(run(journal), ExitCode::kDone);
  EXPECT_EQ(calls(), "0\n1\n2\n") << "finished trials are not run again";
  EXPECT_THAT(err_.str(), HasSubstr("3 of 3 trials have finished"));
}

TEST_F(RunTrials, FailureIsReportedAndTheOthersContinue) {
  does(1, "echo 'error[E0706]: out of memory'; echo '  help: a smaller batch'; exit 1");
  auto journal = SweepJournal::make(sweep(), plan(3));
  EXPECT_EQ(run(journal), ExitCode::kSomeTrialsFailed);
  EXPECT_THAT(states(journal), ElementsAre("finished", "failed", "finished"));
  EXPECT_EQ(journal.trials()[1].reason, "error[E0706]: out of memory");
  EXPECT_EQ(journal.trials()[1].exit, 1);
  EXPECT_THAT(
      err_.str(),
      HasSubstr(
          "trial 1 failed (seed=1): error[E0706]: out of memory\n      help: a smaller batch\n"));
  does(1, "finish");
  EXPECT_EQ(run(journal), ExitCode::kDone);
  EXPECT_EQ(calls(), "0\n1\n2\n1\n") << "only what is missing";
}

TEST_F(RunTrials, FailureIsRetried) {
  does(0, "if [ -e once ]; then finish; else touch once; kill -9 $$; fi");
  auto journal = SweepJournal::make(sweep(), plan(2));
  EXPECT_EQ(run(journal, {.retries = 1}), ExitCode::kDone);
  EXPECT_EQ(calls(), "0\n0\n1\n");
  EXPECT_EQ(journal.trials()[0].attempts, 2);
  EXPECT_THAT(err_.str(), HasSubstr("trial 0 failed (seed=0): exit code 137; it will be retried"));
}

TEST_F(RunTrials, AttemptThatCannotContinueIsSetAside) {
  does(0,
       "if [ -e once ]; then finish; else touch once; mkdir -p $dir; touch $dir/kept; exit 1; fi");
  auto journal = SweepJournal::make(sweep(), plan(1));
  EXPECT_EQ(run(journal, {.retries = 1}), ExitCode::kDone);
  EXPECT_TRUE(std::filesystem::exists(sweep() / "0.attempt-1/kept"));
  EXPECT_TRUE(std::filesystem::exists(sweep() / "0/summary.json"));
}

TEST_F(RunTrials, FirstFailureEndsAFailFastSweep) {
  does(0, "exit 78");
  auto journal = SweepJournal::make(sweep(), plan(3));
  EXPECT_EQ(run(journal, {.fail_fast = true}), ExitCode::kSomeTrialsFailed);
  EXPECT_EQ(calls(), "0\n");
  EXPECT_THAT(states(journal), ElementsAre("failed", "waiting", "waiting"));
}

TEST_F(RunTrials, SeveralTrialsRunAtOnce) {
  for (int trial = 0; trial < 3; ++trial)
    does(trial,
         "touch at_work.$number; until [ -e at_work.0 -a -e at_work.1 -a -e at_work.2 ]; do sleep "
         "0.01; done; finish");
  auto journal = SweepJournal::make(sweep(), plan(3));
  EXPECT_EQ(run(journal, {.slots = 3}), ExitCode::kDone) << "each has waited for the others";
}

TEST_F(RunTrials, SignalMakesTheTrialsSaveAndStop) {
  does(0, "trap 'exit 75' TERM; kill -TERM $PPID; while :; do sleep 0.01; done");
  auto journal = SweepJournal::make(sweep(), plan(2));
  EXPECT_EQ(run(journal), ExitCode::kStoppedAfterSave);
  EXPECT_THAT(states(journal), ElementsAre("interrupted", "waiting"));
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("stopping: running trials save first"),
                                HasSubstr("trial 0 stopped")));
  does(0, "finish");
  EXPECT_EQ(run(journal), ExitCode::kDone);
}

TEST_F(RunTrials, RemovedRunIsRunAgain) {
  auto journal = SweepJournal::make(sweep(), plan(2));
  EXPECT_EQ(run(journal), ExitCode::kDone);
  std::filesystem::remove_all(sweep() / "1");
  EXPECT_EQ(run(journal), ExitCode::kDone);
  EXPECT_EQ(calls(), "0\n1\n1\n");
}

/// A shell command that records accuracies, then runs `then`, which may wait to be stopped.
std::string measures(const std::string& accuracies, const std::string& then = "finish") {
  return "mkdir -p $dir; for accuracy in " + accuracies +
         "; do echo "
         "'{\"node\":\"t\",\"name\":\"accuracy\",\"value\":'$accuracy',\"step\":1,\"time\":0}' "
         ">>$dir/metrics.jsonl; done; " +
         then;
}
constexpr const char* kWaits = "trap 'exit 75' TERM; while :; do sleep 0.01; done";

TEST_F(RunTrials, WorseTrialsAtARungStopEarly) {
  does(0, measures("0.5 0.5 0.5"));
  does(1, measures("0.1", kWaits));
  does(2, measures("0.9 0.9 0.4", kWaits));
  does(3, measures("0.8 0.9 0.4 0.4"));
  SweepPlan with_asha = plan(4);
  with_asha.asha = {.metric = "accuracy", .first = 1, .factor = 3, .last = {}};
  auto journal = SweepJournal::make(sweep(), with_asha);
  EXPECT_EQ(run(journal), ExitCode::kDone);
  EXPECT_THAT(states(journal), ElementsAre("finished", "stopped", "stopped", "stopped"));
  EXPECT_THAT(journal.trials()[1].rungs, ElementsAre(0.1));
  EXPECT_THAT(journal.trials()[2].rungs, ElementsAre(0.9, 0.4))
      << "of which the second was compared with 0.5";
  EXPECT_THAT(journal.trials()[3].rungs, ElementsAre(0.8))
      << "it may reach any rung before it is stopped";
  EXPECT_THAT(err_.str(), HasSubstr("trial 1 stopped early: others are better: 2 of 4"));
  const std::string before = calls();
  EXPECT_EQ(run(journal), ExitCode::kDone);
  EXPECT_EQ(calls(), before) << "stopped trials are done";
}

/// A shell command that records one value of a metric and finishes.
std::string measures_one(const std::string& metric) {
  return R"(mkdir -p $dir; echo '{"node":"t","name":")" + metric +
         R"(","value":0.5,"step":1,"time":0}' >$dir/metrics.jsonl; finish)";
}

TEST_F(RunTrials, TrialWithoutTheComparedMetricCausesAWarning) {
  does(0, measures("0.5"));
  does(1, measures_one("validation/accuracy"));
  does(2, "finish");
  SweepPlan with_asha = plan(3);
  with_asha.asha = {.metric = "accuracy", .first = 2, .factor = 3, .last = {}};
  auto journal = SweepJournal::make(sweep(), with_asha);
  EXPECT_EQ(run(journal), ExitCode::kDone)
      << "one trial has measured it, even if before the first rung";
  EXPECT_THAT(err_.str(), Not(HasSubstr("trial 0 never")));
  EXPECT_THAT(
      err_.str(),
      HasSubstr("warning: trial 1 never measured 'accuracy', which sweep.asha uses to compare "
                "trials; it measured validation/accuracy; did you mean 'validation/accuracy'?\n"));
  EXPECT_THAT(err_.str(), HasSubstr("warning: trial 2 never measured 'accuracy', which "
                                    "sweep.asha uses to compare trials; it measured nothing\n"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("no trial")));
}

TEST_F(RunTrials, SweepWithoutTheComparedMetricEndsWithAnError) {
  does(0, measures_one("loss"));
  does(1, "exit 1");
  SweepPlan with_asha = plan(2);
  with_asha.asha = {.metric = "accuracy", .first = 1, .factor = 3, .last = {}};
  auto journal = SweepJournal::make(sweep(), with_asha);
  EXPECT_EQ(run(journal), ExitCode::kBadRecipe);
  EXPECT_THAT(
      err_.str(),
      testing::EndsWith("error: no trial has measured 'accuracy', so none was compared or stopped "
                        "early; set sweep.asha.metric to a metric that they do measure\n"));
  EXPECT_EQ(run(journal), ExitCode::kBadRecipe) << "including nodes that finished before";
}

TEST_F(RunTrials, UnfinishedSweepDoesNotReportMissingMetrics) {
  does(0, "exit 1");
  SweepPlan with_asha = plan(1);
  with_asha.asha = {.metric = "accuracy", .first = 1, .factor = 3, .last = {}};
  auto journal = SweepJournal::make(sweep(), with_asha);
  EXPECT_EQ(run(journal), ExitCode::kSomeTrialsFailed);
}

TEST_F(RunTrials, ComparisonsOfAKilledSweepCount) {
  SweepPlan with_asha = plan(3);
  with_asha.asha = {.metric = "accuracy", .first = 1, .factor = 3, .last = 2};
  {
    auto journal = SweepJournal::make(sweep(), with_asha);
    for (const auto& [trial, value] : {std::pair(0, 0.5), std::pair(1, 0.4)}) {
      journal.started(trial);
      journal.reached(trial, value);
    }
  }
  auto journal = SweepJournal::reopen(sweep());
  ASSERT_TRUE(journal);
  does(0, measures("0.5 0.5 0.5"));
  does(2, measures("0.3 0.3 0.3", kWaits));
  EXPECT_EQ(run(*journal), ExitCode::kDone);
  EXPECT_EQ(calls(), "0\n2\n") << "trial 1 was worse and did not continue";
  EXPECT_THAT(states(*journal), ElementsAre("finished", "stopped", "stopped"));
  EXPECT_THAT(journal->trials()[0].rungs, ElementsAre(0.5)) << "no rung is compared twice";
}

TEST_F(RunTrials, QuietReportsOnlyFailures) {
  does(1, "exit 1");
  auto journal = SweepJournal::make(sweep(), plan(2));
  run_trials(journal, {},
             {.program = folder_ / "retort", .err = err_, .verbosity = Verbosity::kQuiet});
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("trial 1 failed"), Not(HasSubstr("started"))));
}

TEST_F(RunTrials, MissingProgramIsAFailure) {
  auto journal = SweepJournal::make(sweep(), plan(1));
  EXPECT_EQ(run_trials(journal, {}, {.program = folder_ / "nothing", .err = err_}),
            ExitCode::kSomeTrialsFailed);
  EXPECT_THAT(journal.trials()[0].reason, HasSubstr("cannot start"));
}

}  // namespace
}  // namespace runner
