#include "runner/parent/sweep/follow_tasks.h"

#include <csignal>
#include <deque>
#include <sstream>

#include <gmock/gmock.h>

#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/task_account.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A cluster in which nothing happens on its own: each wait runs the next action in a list.
class FollowTasks : public testing::Test, protected TaskQueue {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(SweepLayout(folder_.path()).recipes());
  }
  SweepJournal journal(std::uint64_t trials) const {
    SweepPlan plan{.recipe = "small", .overrides = {}, .folder = folder_.path(), .trials = {}};
    for (std::uint64_t number = 0; number < trials; ++number)
      plan.trials.push_back(
          {.number = number, .hash = "aa", .settings = {"seed=" + std::to_string(number)}});
    return SweepJournal::make(folder_.path(), plan);
  }
  ExitCode follow(SweepJournal& journal, std::deque<std::function<void()>> story,
                  const FollowOptions& options = {}) {
    err_.str("");
    FollowOptions all = options;
    all.prefix = "sweep";
    const auto wait = [&](std::chrono::milliseconds) -> std::optional<int> {
      if (signal_) return std::exchange(signal_, std::nullopt);
      if (story.empty()) {
        if (++idle_ > 20) throw std::runtime_error("this goes on for ever: " + err_.str());
        return std::nullopt;
      }
      const auto next = std::move(story.front());
      story.pop_front();
      next();
      return std::exchange(signal_, std::nullopt);
    };
    return follow_tasks(journal, *this, all, wait,
                        {.program = "retort",
                         .err = err_,
                         .run_arguments = {"--reuse"},
                         .resume_arguments = {"--force"}});
  }
  void report(int submission, std::size_t task, const TaskEvent& event) const {
    TaskAccount(LaunchLayout(folder_.path()).account(submission, task)).add(event);
  }
  void begin(int submission, std::size_t task) const {
    report(submission, task, {.place = "on node1"});
  }
  void finish(int submission, std::size_t task, std::uint64_t trial) const {
    folder_.write(std::to_string(trial) + "/summary.json", R"({"status": "finished"})");
    report(submission, task, {.state = TrialState::kFinished, .seconds = 2});
  }
  std::vector<std::string> states(const SweepJournal& journal) const {
    std::vector<std::string> all;
    for (const Trial& trial : journal.trials()) all.emplace_back(runner::name(trial.state));
    return all;
  }

  std::string name() const override { return "Slurm"; }
  Result<std::string> submit(const Submission& submission) override {
    if (refusal_) return Diagnostic{*refusal_, {}, "", "sbatch: no such partition", "correct it"};
    std::string trials;
    for (const std::uint64_t trial : submission.trials) trials += " " + std::to_string(trial);
    submitted_.push_back(submission.name + ":" + trials);
    for (const auto* arguments : {&submission.run_arguments, &submission.resume_arguments})
      EXPECT_EQ(arguments->size(), 1u);
    for (std::size_t index = 0; index < submission.trials.size(); ++index)
      queue_.push_back({.submission = submission.name, .index = index, .state = "PENDING"});
    return std::to_string(100 + submission.number);
  }
  Result<std::vector<QueuedTask>> look(std::span<const Submission>) override {
    if (is_silent_)
      return Diagnostic{ErrorCode::kClusterSilent, {}, "", "squeue: no answer", "wait"};
    return queue_;
  }
  std::string fate(const Submission&, std::size_t) override { return fate_; }
  Diagnostics cancel(std::span<const Submission>) override {
    is_canceled_ = true;
    queue_.clear();
    return {};
  }

  TemporaryFolder folder_;
  std::ostringstream err_;
  std::vector<QueuedTask> queue_;
  std::vector<std::string> submitted_;
  std::optional<ErrorCode> refusal_;
  std::optional<int> signal_;
  std::string fate_;
  bool is_silent_ = false, is_canceled_ = false;
  int idle_ = 0;
};

TEST_F(FollowTasks, AccountsAreCopiedToTheJournal) {
  auto sweep = journal(2);
  EXPECT_EQ(follow(sweep, {[&] {
                             begin(1, 0);
                             begin(1, 1);
                             finish(1, 1, 1);
                           },
                           [&] { finish(1, 0, 0); }}),
            ExitCode::kDone);
  EXPECT_THAT(submitted_, ElementsAre("sweep-1: 0 1"));
  EXPECT_THAT(states(sweep), ElementsAre("finished", "finished"));
  EXPECT_EQ(sweep.trials()[0].attempts, 1);
  EXPECT_EQ(sweep.trials()[0].seconds, 2);
  EXPECT_EQ(err_.str(),
            "Slurm job 101: 2 trials\n"
            "trial 0 started (seed=0), on node1\n"
            "trial 1 started (seed=1), on node1\n"
            "trial 1 finished in 0:00:02: 1 of 2\n"
            "trial 0 finished in 0:00:02: 2 of 2\n");
  EXPECT_EQ(follow(sweep, {}), ExitCode::kDone);
  EXPECT_EQ(submitted_.size(), 1u) << "finished trials are not submitted again";
}

TEST_F(FollowTasks, AnotherProcessContinuesTheSameArray) {
  {
    auto sweep = journal(3);
    EXPECT_EQ(follow(sweep, {[&] {
                               begin(1, 0);
                               begin(1, 1);
                             },
                             [&] {
                               finish(1, 0, 0);
                               signal_ = SIGINT;
                             }}),
              ExitCode::kStoppedAfterSave);
    EXPECT_THAT(err_.str(), HasSubstr("the tasks continue without this process\n"));
  }
  report(1, 1, {.state = TrialState::kInterrupted, .exit = 75, .seconds = 1});
  begin(1, 1);
  auto sweep = SweepJournal::reopen(folder_.path());
  ASSERT_TRUE(sweep);
  EXPECT_EQ(follow(*sweep, {[&] {
              finish(1, 1, 1);
              begin(1, 2);
              finish(1, 2, 2);
            }}),
            ExitCode::kDone);
  EXPECT_THAT(submitted_, ElementsAre("sweep-1: 0 1 2"));
  EXPECT_THAT(states(*sweep), ElementsAre("finished", "finished", "finished"));
  EXPECT_EQ(sweep->trials()[0].attempts, 1) << "trials from the journal are not reported again";
  EXPECT_EQ(sweep->trials()[0].seconds, 2);
  EXPECT_EQ(sweep->trials()[1].attempts, 2);
  EXPECT_EQ(sweep->trials()[1].seconds, 3);
  EXPECT_THAT(err_.str(), HasSubstr("continuing with Slurm job 101\n"));
}

TEST_F(FollowTasks, VanishedTaskIsResubmitted) {
  auto sweep = journal(2);
  const auto vanish = [&] {
    std::erase_if(queue_, [](const QueuedTask& task) { return task.index == 1; });
  };
  fate_ = "NODE_FAIL";
  EXPECT_EQ(follow(sweep, {[&] {
                             begin(1, 1);
                             vanish();
                           },
                           [&] { begin(1, 0); }, [&] {}, [&] { finish(1, 0, 0); },
                           [&] {
                             begin(2, 0);
                             finish(2, 0, 1);
                           }}),
            ExitCode::kDone);
  EXPECT_THAT(submitted_, ElementsAre("sweep-1: 0 1", "sweep-2: 1"));
  EXPECT_EQ(sweep.trials()[1].attempts, 2);
  EXPECT_THAT(err_.str(), HasSubstr("trial 1: its task is gone (NODE_FAIL); it will be "
                                    "resubmitted and continue from its last checkpoint\n"));
}

TEST_F(FollowTasks, TaskThatKeepsVanishingIsAbandoned) {
  auto sweep = journal(1);
  std::deque<std::function<void()>> story(20, [&] { queue_.clear(); });
  EXPECT_EQ(follow(sweep, story, {.resubmissions = 2}), ExitCode::kSomeTrialsFailed);
  EXPECT_THAT(submitted_, ElementsAre("sweep-1: 0", "sweep-2: 0", "sweep-3: 0"));
  EXPECT_THAT(states(sweep), ElementsAre("interrupted"));
  EXPECT_THAT(err_.str(), testing::EndsWith("trial 0: its task is gone\n"));
}

TEST_F(FollowTasks, CanceledTaskWaitsForAnotherProcess) {
  auto sweep = journal(1);
  const auto cancel = [&] {
    for (QueuedTask& task : queue_) task.has_ended = true, task.state = "CANCELLED";
  };
  EXPECT_EQ(follow(sweep, {cancel, [] {}, [] {}}), ExitCode::kSomeTrialsFailed);
  EXPECT_THAT(err_.str(), testing::EndsWith("trial 0: its task is gone (CANCELLED)\n"));
  EXPECT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(follow(sweep, {[] {}, [] {}, [] {}, [&] { finish(2, 0, 0); }}), ExitCode::kDone);
  EXPECT_EQ(submitted_.size(), 2u) << "an explicit request continues the trial";
}

TEST_F(FollowTasks, RequeuedTaskIsWaitedFor) {
  auto sweep = journal(1);
  EXPECT_EQ(
      follow(sweep,
             {[&] { begin(1, 0); },
              [&] { report(1, 0, {.state = TrialState::kInterrupted, .exit = 75, .seconds = 1}); },
              [] {}, [] {}, [] {}, [&] { begin(1, 0); }, [&] { finish(1, 0, 0); }}),
      ExitCode::kDone);
  EXPECT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(sweep.trials()[0].attempts, 2);
  EXPECT_THAT(err_.str(), AllOf(HasSubstr("trial 0 stopped\n"), HasSubstr("trial 0 resumed")));
}

TEST_F(FollowTasks, FailureIsReportedAndRetried) {
  auto sweep = journal(1);
  const TaskEvent failure = {.state = TrialState::kFailed,
                             .exit = 1,
                             .reason = "error[E0706]: out of memory",
                             .said = {"before it"}};
  EXPECT_EQ(follow(sweep,
                   {[&] {
                      begin(1, 0);
                      report(1, 0, failure);
                    },
                    [&] {
                      begin(2, 0);
                      report(2, 0, failure);
                    }},
                   {.trials = {.retries = 1}}),
            ExitCode::kSomeTrialsFailed);
  EXPECT_EQ(submitted_.size(), 2u);
  EXPECT_THAT(err_.str(),
              AllOf(HasSubstr("trial 0 failed: error[E0706]: out of memory; it will be retried\n"
                              "    before it\n"),
                    HasSubstr("trial 0 failed: error[E0706]: out of memory\n")));
}

TEST_F(FollowTasks, FirstFailureCancelsAFailFastSweep) {
  auto sweep = journal(2);
  EXPECT_EQ(follow(sweep,
                   {[&] {
                      begin(1, 0);
                      report(1, 0, {.state = TrialState::kFailed, .exit = 1, .reason = "no"});
                    },
                    [] {}, [] {}, [] {}},
                   {.trials = {.fail_fast = true}}),
            ExitCode::kSomeTrialsFailed);
  EXPECT_TRUE(is_canceled_);
  EXPECT_EQ(submitted_.size(), 1u);
}

TEST_F(FollowTasks, RefusalEndsTheSweepWithoutLosingTrials) {
  auto sweep = journal(1);
  refusal_ = ErrorCode::kClusterRefused;
  EXPECT_EQ(follow(sweep, {}), ExitCode::kDeviceUnavailable);
  EXPECT_EQ(err_.str(), "error[E0721]: sbatch: no such partition\n  help: correct it\n");
  refusal_.reset();
  EXPECT_EQ(follow(sweep, {[&] { finish(2, 0, 0); }}), ExitCode::kDone);
  EXPECT_THAT(submitted_, ElementsAre("sweep-2: 0"));
}

TEST_F(FollowTasks, UnconfirmedSubmissionIsLookedUpByName) {
  auto sweep = journal(1);
  refusal_ = ErrorCode::kClusterSilent;
  EXPECT_EQ(follow(sweep, {}), ExitCode::kDeviceUnavailable);
  refusal_.reset();
  queue_ = {{.submission = "sweep-1", .index = 0, .state = "RUNNING"}};
  EXPECT_EQ(follow(sweep, {[] {}, [] {}, [] {}, [] {}, [&] { finish(1, 0, 0); }}), ExitCode::kDone);
  EXPECT_THAT(submitted_, ElementsAre()) << "it had been submitted before";
  EXPECT_THAT(err_.str(), HasSubstr("continuing with Slurm job 'sweep-1'\n"));
}

TEST_F(FollowTasks, SilentQueueIsToleratedUntilPatienceEnds) {
  auto sweep = journal(1);
  is_silent_ = true;
  EXPECT_EQ(follow(sweep, {[&] { begin(1, 0); }, [&] { finish(1, 0, 0); }}), ExitCode::kDone);
  EXPECT_THAT(
      err_.str(),
      HasSubstr("Slurm is not responding (squeue: no answer); following the trials' own files\n"));
  std::filesystem::remove_all(folder_ / "0");
  EXPECT_EQ(follow(sweep, {}, {.patience = std::chrono::milliseconds(0)}),
            ExitCode::kDeviceUnavailable);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0720]: squeue: no answer\n"));
}

TEST_F(FollowTasks, OnlyRecordedEventsAreReadWithoutWaiting) {
  auto sweep = journal(2);
  EXPECT_EQ(follow(sweep, {}, {.waits = false}), ExitCode::kDone);
  begin(1, 0);
  finish(1, 0, 0);
  EXPECT_EQ(follow(sweep, {}, {.waits = false}), ExitCode::kStoppedAfterSave);
  EXPECT_THAT(err_.str(), testing::EndsWith("1 trial has not ended yet\n"));
  EXPECT_THAT(states(sweep), ElementsAre("finished", "waiting"));
  finish(1, 1, 1);
  EXPECT_EQ(follow(sweep, {}, {.waits = false}), ExitCode::kDone);
  EXPECT_EQ(submitted_.size(), 1u);
}

TEST_F(FollowTasks, LargeSweepUsesSeveralArrays) {
  auto sweep = journal(1001);
  EXPECT_EQ(follow(sweep, {[&] { signal_ = SIGTERM; }}), ExitCode::kStoppedAfterSave);
  EXPECT_EQ(submitted_.size(), 2u);
  EXPECT_EQ(submitted_.back(), "sweep-2: 1000");
}

}  // namespace
}  // namespace runner
