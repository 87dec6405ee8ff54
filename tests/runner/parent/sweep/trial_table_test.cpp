#include "runner/parent/sweep/trial_table.h"

#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "runner/parent/sweep/sweep_journal.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TrialProgress trial(std::uint64_t number, TrialState state, const RunProgress& run = {}) {
  return {.trial = {.number = number,
                    .hash = "aa",
                    .settings = {"data=photos", "seed=" + std::to_string(number)},
                    .state = state},
          .run = run};
}

const RunProgress kAtWork = {.status = "running",
                             .node = "train",
                             .epoch = 2,
                             .epochs = 10,
                             .step = 30,
                             .metric = "validation/accuracy",
                             .value = 0.8125,
                             .memory_bytes = 29 << 20,
                             .seconds_left = 62,
                             .silent_seconds = 1};

TEST(TrialTable, HasARowForEachTrialAndTheCounts) {
  EXPECT_EQ(trials_text({trial(0, TrialState::kFinished,
                               {.status = "finished", .metric = "evaluate/top1", .value = 0.5}),
                         trial(1, TrialState::kRunning, kAtWork), trial(2, TrialState::kWaiting)},
                        10),
            "trial  state     metric                      epoch      ETA  memory  settings\n"
            "    0  finished  evaluate/top1 0.5000            –        –       –  seed=0\n"
            "    1  running   validation/accuracy 0.8125   2/10  0:01:02  29 MiB  seed=1\n"
            "    2  waiting   –                               –        –       –  seed=2\n"
            "3 trials: 1 running, 1 waiting, 1 finished\n");
}

TEST(TrialTable, LongSweepShowsOnlyRunningAndFailedTrials) {
  std::vector<TrialProgress> trials;
  for (std::uint64_t number = 0; number < 50; ++number)
    trials.push_back(trial(number, TrialState::kWaiting));
  trials[7].trial.state = TrialState::kFinished;
  trials[20].trial.state = TrialState::kFailed;
  trials[40] = trial(40, TrialState::kRunning, kAtWork);
  EXPECT_EQ(trials_text(trials, 2),
            "trial  state    metric                      epoch      ETA  memory  settings\n"
            "   20  failed   –                               –        –       –  seed=20\n"
            "   40  running  validation/accuracy 0.8125   2/10  0:01:02  29 MiB  seed=40\n"
            "50 trials: 1 running, 1 failed, 47 waiting, 1 finished\n");
}

TEST(TrialTable, OnlyCountsAreShownIfThereIsNoRoom) {
  EXPECT_EQ(
      trials_text({trial(0, TrialState::kFinished), trial(1, TrialState::kRunning, kAtWork)}, 0),
      "2 trials: 1 running, 1 finished\n");
}

TEST(TrialTable, FitsATerminalOfAnyHeight) {
  std::vector<TrialProgress> trials;
  for (std::uint64_t number = 0; number < 50; ++number)
    trials.push_back(trial(number, TrialState::kWaiting));
  for (std::size_t rows = 2; rows < 60; ++rows) {
    const std::string text = trials_text(trials, trials_on_terminal(rows));
    EXPECT_LT(std::ranges::count(text, '\n'), static_cast<int>(rows))
        << "the cursor is on the line below";
    if (rows >= 4 && rows <= 53)
      EXPECT_EQ(std::ranges::count(text, '\n'), static_cast<int>(rows) - 1)
          << "no line is left free";
  }
}

TEST(TrialTable, EarlyStoppedTrialCountsAsFinished) {
  const TrialProgress stopped = trial(1, TrialState::kStopped, {.status = "interrupted"});
  EXPECT_TRUE(stopped.is_over());
  EXPECT_EQ(stopped.state(), "stopped");
  EXPECT_EQ(trials_text({stopped}, 0), "1 trial: 1 finished\n");
}

TEST(TrialTable, RunKilledWithItsSweepIsInterrupted) {
  const TrialProgress killed = trial(1, TrialState::kRunning, {.status = "interrupted"});
  EXPECT_FALSE(killed.is_over());
  EXPECT_EQ(killed.state(), "interrupted");
  EXPECT_EQ(trials_text({killed}, 0), "1 trial: 1 interrupted\n");
}

TEST(TrialTable, SilentRunIsMarked) {
  RunProgress silent = kAtWork;
  silent.silent_seconds = 300;
  EXPECT_EQ(trial(1, TrialState::kRunning, silent).state(), "running, silent for 0:05:00");
  EXPECT_EQ(run_line(silent),
            "running, silent for 0:05:00  train  epoch 2/10  validation/accuracy 0.8125  29 MiB  "
            "ETA 0:01:02");
  EXPECT_EQ(run_line({}), "not started");
}

TEST(TrialTable, RunStatusTakesPrecedenceOverTheJournal) {
  EXPECT_EQ(trial(1, TrialState::kRunning, {.status = "finished"}).state(), "finished");
  EXPECT_TRUE(trial(1, TrialState::kRunning, {.status = "finished"}).is_over());
  EXPECT_EQ(trial(1, TrialState::kWaiting, {.status = "running"}).state(), "running");
  EXPECT_EQ(trial(1, TrialState::kInterrupted, {.status = "running"}).state(), "interrupted");
}

TEST(TrialTable, LineShowsOneTrial) {
  EXPECT_EQ(trial_line(trial(3, TrialState::kRunning, kAtWork)),
            "trial 3  running  train  epoch 2/10  validation/accuracy 0.8125  29 MiB  ETA 0:01:02");
  EXPECT_EQ(trial_line(trial(3, TrialState::kWaiting)), "trial 3  waiting");
}

TEST(TrialTable, JsonHasNullForUnknownValues) {
  EXPECT_EQ(
      to_json(RunProgress{}).dump(),
      R"({"status":null,"node":null,"epoch":null,"epochs":null,"step":null,"metric":null,"value":null,)"
      R"("memory_bytes":null,"seconds_left":null,"silent_seconds":null})");
}

class LiveTrialsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(SweepLayout(folder_.path()).recipes());
  }
  TemporaryFolder folder_;
  std::ostringstream err_;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(LiveTrialsTest, StayBelowPrintedLinesOnATerminal) {
  const auto journal = SweepJournal::make(
      folder_.path(),
      {.recipe = "a", .overrides = {}, .folder = "/", .trials = {{.number = 0, .hash = "a"}}});
  const DisplayOptions display{.is_terminal = true, .clock = [this] { return now_; }};
  const std::string table =
      "trial  state    metric  epoch  ETA  memory  settings\n"
      "    0  waiting       –      –    –       –         –\n1 trial: 1 waiting\n";
  {
    LiveTrials live(journal, err_, display);
    EXPECT_EQ(live.tick(), std::chrono::milliseconds(1000));
    EXPECT_EQ(err_.str(), table);
    err_.str("");
    now_ += std::chrono::milliseconds(400);
    EXPECT_EQ(live.tick(), std::chrono::milliseconds(600)) << "only after a second";
    EXPECT_EQ(err_.str(), "");
    live.say("trial 0 started");
    EXPECT_EQ(err_.str(), "\r\x1b[3A\x1b[Jtrial 0 started\n");
    err_.str("");
    EXPECT_EQ(live.tick(), std::chrono::milliseconds(1000));
    EXPECT_EQ(err_.str(), table);
    err_.str("");
  }
  EXPECT_EQ(err_.str(), "\r\x1b[3A\x1b[J") << "the results take its place";
}

TEST_F(LiveTrialsTest, OnlyShownRunsAreRead) {
  std::vector<Trial> trials;
  for (std::uint64_t number = 0; number < 40; ++number) {
    trials.push_back({.number = number, .hash = "a", .state = TrialState::kFinished});
    folder_.write(std::to_string(number) + "/summary.json", R"({"status": "finished"})");
  }
  trials[7].state = TrialState::kRunning;
  folder_.write("7/summary.json", R"({"status": "running"})");
  trials[30].state = TrialState::kFailed;
  const auto read = [&](std::optional<std::size_t> most) {
    std::vector<std::uint64_t> numbers;
    for (const TrialProgress& one : trials_progress(folder_.path(), trials, most))
      if (!one.run.status.empty()) numbers.push_back(one.trial.number);
    return numbers;
  };
  EXPECT_THAT(read(3), testing::ElementsAre(0, 7, 30));
  EXPECT_THAT(read(0), testing::ElementsAre(7)) << "a running trial may have ended";
  EXPECT_EQ(read(std::nullopt).size(), 40u);
}

TEST_F(LiveTrialsTest, AreNoTallerThanTheTerminal) {
  std::vector<Trial> trials;
  for (std::uint64_t number = 0; number < 40; ++number)
    trials.push_back({.number = number, .hash = "a"});
  const auto journal = SweepJournal::make(
      folder_.path(), {.recipe = "a", .overrides = {}, .folder = "/", .trials = trials});
  for (const auto& [rows, lines] : {std::pair(6u, 5), std::pair(3u, 1), std::pair(100u, 18)}) {
    err_.str("");
    const DisplayOptions display{.is_terminal = true,
                                 .size = [rows = rows] { return TerminalSize{.rows = rows}; },
                                 .clock = [this] { return now_; }};
    LiveTrials live(journal, err_, display);
    live.tick();
    EXPECT_EQ(std::ranges::count(err_.str(), '\n'), lines) << rows;
  }
}

TEST_F(LiveTrialsTest, AreDrawnOnlyOnATerminal) {
  const auto journal = SweepJournal::make(
      folder_.path(), {.recipe = "a", .overrides = {}, .folder = "/", .trials = {}});
  const DisplayOptions plain, quiet{.is_terminal = true, .verbosity = Verbosity::kQuiet};
  LiveTrials no_terminal(journal, err_, plain), silent(journal, err_, quiet);
  EXPECT_EQ(no_terminal.tick(), std::nullopt);
  EXPECT_EQ(silent.tick(), std::nullopt);
  EXPECT_EQ(err_.str(), "");
}

}  // namespace
}  // namespace runner
