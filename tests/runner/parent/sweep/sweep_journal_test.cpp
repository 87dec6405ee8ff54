#include "runner/parent/sweep/sweep_journal.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

SweepPlan two_trials() {
  return {.recipe = "quickstart",
          .overrides = {"seed=1,2"},
          .folder = "/work",
          .trials = {{.number = 0, .hash = "aa", .settings = {"seed=1"}},
                     {.number = 1, .hash = "bb", .settings = {"seed=2"}}}};
}

class SweepJournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(SweepLayout(folder_.path()).recipes());
  }
  std::string text() const { return file_text(SweepLayout(folder_.path()).journal()); }
  void set_text(const std::string& text) const {
    std::ofstream(SweepLayout(folder_.path()).journal()) << text;
  }
  Diagnostic refusal() const {
    const auto journal = SweepJournal::reopen(folder_.path());
    return journal ? Diagnostic{} : journal.errors().front();
  }
  TemporaryFolder folder_;
};

TEST_F(SweepJournalTest, ComparisonsReadBackUnchanged) {
  SweepPlan plan = two_trials();
  plan.asha = {.metric = "loss", .first = 2, .factor = 4, .last = 9};
  plan.recipe_folder = "/recipes";
  {
    auto journal = SweepJournal::make(folder_.path(), plan);
    journal.reached(1, 0.5);
    journal.reached(0, NAN);
    journal.reached(1, 0.25);
    journal.ended(0, TrialState::kStopped, 75, 1);
  }
  const auto journal = SweepJournal::read(folder_.path());
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->asha, plan.asha);
  EXPECT_EQ(journal->recipe_folder, plan.recipe_folder);
  ASSERT_EQ(journal->rungs.size(), 3u);
  EXPECT_EQ(journal->rungs[0].trial, 1u);
  EXPECT_TRUE(std::isnan(journal->rungs[1].value));
  EXPECT_EQ(journal->rungs[2].rung, 1u);
  EXPECT_THAT(journal->trials[1].rungs, ElementsAre(0.5, 0.25));
  EXPECT_EQ(journal->trials[0].state, TrialState::kStopped);
}

TEST_F(SweepJournalTest, UnflushedResultsAreDistrustedAfterAPowerCut) {
  {
    auto journal = SweepJournal::make(folder_.path(), two_trials());
    for (const std::uint64_t trial : {0, 1}) {
      journal.started(trial);
      journal.ended(trial, TrialState::kFinished, 0, 1);
      if (trial == 0) journal.flush();
    }
  }
  EXPECT_EQ(SweepJournal::reopen(folder_.path())->trials()[1].state, TrialState::kFinished)
      << "no state went back to an earlier one";
  const std::string boot = SweepJournal::read(folder_.path())->boot;
  ASSERT_FALSE(boot.empty());
  std::string other = text();
  other.replace(other.find(boot), boot.size(), "another");
  set_text(other);
  for (int time = 0; time < 2; ++time) {
    auto journal = SweepJournal::reopen(folder_.path());
    ASSERT_TRUE(journal) << journal.errors().front().message;
    EXPECT_EQ(journal->trials()[0].state, TrialState::kFinished);
    EXPECT_EQ(journal->trials()[1].state, TrialState::kInterrupted) << time;
    EXPECT_TRUE(journal->trials()[1].is_doubtful);
    if (time == 0) continue;
    journal->started(1);
    EXPECT_FALSE(journal->trials()[1].is_doubtful);
    journal->ended(1, TrialState::kFinished, 0, 1);
  }
  EXPECT_EQ(SweepJournal::reopen(folder_.path())->trials()[1].state, TrialState::kFinished);
}

TEST_F(SweepJournalTest, EventsReadBackUnchanged) {
  {
    auto journal = SweepJournal::make(folder_.path(), two_trials());
    journal.started(1);
    journal.ended(1, TrialState::kFailed, 1, 2.5, "error[E0706]: out of memory");
    journal.started(1);
    journal.ended(1, TrialState::kFinished, 0, 0.5);
    journal.started(0);
  }
  const auto journal = SweepJournal::reopen(folder_.path());
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->plan().recipe, "quickstart");
  EXPECT_THAT(journal->plan().overrides, ElementsAre("seed=1,2"));
  EXPECT_EQ(journal->plan().folder, "/work");
  const std::vector<Trial>& trials = journal->trials();
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0].state, TrialState::kInterrupted) << "its process no longer exists";
  EXPECT_EQ(trials[0].attempts, 1);
  EXPECT_EQ(trials[1].state, TrialState::kFinished);
  EXPECT_EQ(trials[1].attempts, 2);
  EXPECT_EQ(trials[1].seconds, 3.0);
  EXPECT_EQ(trials[1].reason, "");
  EXPECT_EQ(trials[1].hash, "bb");
  EXPECT_THAT(trials[1].settings, ElementsAre("seed=2"));
}

TEST_F(SweepJournalTest, SecondsIncludeAllAttemptsEvenKilledOnes) {
  const auto measure = [&](const std::string& seconds) {
    folder_.write(
        "0/metrics.jsonl",
        R"({"node": "train", "name": "loss", "value": 1, "step": 1, "time": )" + seconds + "}\n");
  };
  {
    auto journal = SweepJournal::make(folder_.path(), two_trials());
    journal.started(0);
    measure("20");  // then the sweep is killed
  }
  {
    auto journal = SweepJournal::reopen(folder_.path());
    EXPECT_EQ(journal->trials()[0].seconds, 20);
    journal->started(0);
    measure("50");  // then it is killed again
  }
  {
    auto journal = SweepJournal::reopen(folder_.path());
    EXPECT_EQ(journal->trials()[0].seconds, 50);
    journal->started(0);
    journal->ended(0, TrialState::kFinished, 0, 5);
    EXPECT_EQ(journal->trials()[0].seconds, 55);
  }
  EXPECT_EQ(SweepJournal::read(folder_.path())->trials[0].seconds, 55);
}

TEST_F(SweepJournalTest, AttemptThatReportsItsEndLateCountsOnce) {
  {
    auto journal = SweepJournal::make(folder_.path(), two_trials());
    journal.started(0);
    folder_.write("0/metrics.jsonl",
                  R"({"node": "train", "name": "loss", "value": 1, "step": 1, "time": 20})"
                  "\n");
  }
  auto journal = SweepJournal::reopen(folder_.path());
  journal->ended(0, TrialState::kFinished, 0, 30);  // the cluster's task continued meanwhile
  EXPECT_EQ(journal->trials()[0].seconds, 30);
  EXPECT_EQ(SweepJournal::read(folder_.path())->trials[0].seconds, 30);
}

TEST_F(SweepJournalTest, TruncatedLastLineIsDropped) {
  SweepJournal::make(folder_.path(), two_trials()).started(0);
  const std::string whole = text();
  const std::string next = R"({"trial":0,"state":"finished","exit":0,"seconds":1.0})";
  for (std::size_t length = 1; length <= next.size(); length += 10) {
    set_text(whole + next.substr(0, length));
    auto journal = SweepJournal::reopen(folder_.path());
    ASSERT_TRUE(journal) << length;
    EXPECT_EQ(journal->trials()[0].state, TrialState::kInterrupted);
    journal->started(1);
    EXPECT_EQ(text(), whole + R"({"trial":1,"state":"running"})" + "\n");
  }
}

TEST_F(SweepJournalTest, OnlyOneProcessMayWrite) {
  const auto first = SweepJournal::make(folder_.path(), two_trials());
  const Diagnostic error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kRunBusy);
  EXPECT_THAT(error.message, StartsWith("the sweep '" + folder_.path().string() +
                                        "' is running in another process (process " +
                                        std::to_string(getpid()) + " on '"));
  EXPECT_TRUE(SweepJournal::read(folder_.path())) << "reading needs no lock";
}

TEST_F(SweepJournalTest, DamagedJournalIsRejectedWithItsLine) {
  EXPECT_EQ(refusal().code, ErrorCode::kNoRun);
  EXPECT_THAT(refusal().message, HasSubstr("contains no sweep"));
  set_text("");
  EXPECT_EQ(refusal().code, ErrorCode::kDamagedRecord);
  EXPECT_THAT(refusal().message, HasSubstr("is empty or truncated"));
  SweepJournal::make(
      (std::filesystem::remove(SweepLayout(folder_.path()).journal()), folder_.path()),
      two_trials());
  const std::string whole = text();
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "line 2: a line is not a JSON object"},
      {"{}", "line 2: a line has no 'trial'"},
      {R"({"trial":2,"state":"running"})", "line 2: a line does not identify a trial"},
      {R"({"trial":0,"state":"tired"})", "line 2: a line does not identify a trial"},
      {R"({"trial":-1,"state":"running"})", "line 2: a line has a 'trial' that is not a count"},
      {R"({"trial":0,"state":"failed"})", "line 2: a line has no 'exit'"},
  };
  for (const auto& [line, message] : cases) {
    set_text(whole + line + "\n");
    EXPECT_EQ(refusal().code, ErrorCode::kDamagedRecord) << line;
    EXPECT_THAT(refusal().message, HasSubstr(message)) << line;
  }
  set_text(R"({"sweep":2})"
           "\n");
  EXPECT_THAT(refusal().message, HasSubstr("its first line has a different version"));
  set_text(
      R"({"sweep":1,"recipe":"a","overrides":[],"folder":"/","trials":[{"number":1,"hash":"","settings":[]}]})"
      "\n");
  EXPECT_THAT(refusal().message, HasSubstr("are not numbered from 0"));
}

}  // namespace
}  // namespace runner
