// End-to-end tests of ranks that fail, are killed or do not respond.

#include <csignal>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/ranks_fixture.h"

namespace {

using testing::HasSubstr;
using testing::Not;

using FaultyRanks = Ranks;

TEST_F(FaultyRanks, RunStopsWhenOneRankIsKilledAndCanBeResumed) {
  ASSERT_EQ(train("whole", 2).exit, 0);
  for (const std::string worker : {"retort-worker", "retort-worker-1"}) {
    const std::string name = "killed-" + worker;
    const Ended killed = train(name, 2, "memory.max_retries=0", worker + "/step:3:kill");
    EXPECT_EQ(killed.exit, 1) << killed.err;
    EXPECT_THAT(killed.err, HasSubstr("SIGKILL"));
    EXPECT_THAT(killed.err, Not(HasSubstr("has lost contact with another rank")))
        << "only the cause is shown";
    EXPECT_THAT(killed.err, HasSubstr("retort resume"));
    const Ended resumed = retort("resume " + name, folder_.path());
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(weights(name) == weights("whole"));
    EXPECT_EQ(summary(name)["status"], "finished");
  }
}

/// The process of a rank's worker, among the descendants of the process `retort`.
pid_t worker_of(pid_t retort, int rank) {
  const std::string own = std::to_string(retort);
  std::istringstream workers(file_text("/proc/" + own + "/task/" + own + "/children"));
  const std::string mark = "RETORT_RANK=" + std::to_string(rank);
  for (pid_t worker = 0; workers >> worker;) {
    const std::string variables = file_text("/proc/" + std::to_string(worker) + "/environ");
    const bool is_other = variables.find("RETORT_RANK=") != variables.npos;
    if (rank == 0 ? !is_other : variables.find(mark) != variables.npos) return worker;
  }
  return 0;
}

TEST_F(FaultyRanks, RunEndsWhenOneRankDoesNotRespondAndCanBeResumed) {
  for (const int silent : {0, 1}) {
    const std::string name = "silent-" + std::to_string(silent);
    Endless run =
        start_endless(name, 3, "train.schedule.kind=constant device.collective_timeout_seconds=15");
    wait_for_checkpoint(name);  // before that, there is nothing to resume
    const pid_t worker = worker_of(run.retort, silent);
    ASSERT_GT(worker, 0);
    ASSERT_EQ(kill(worker, SIGSTOP), 0);
    const Ended ended = run.ended.get();
    EXPECT_EQ(ended.exit, 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("rank " + std::to_string(silent) +
                                     " has not responded for 15 s "
                                     "(device.collective_timeout_seconds), and last took part in "
                                     "step "));
    EXPECT_THAT(ended.err, HasSubstr(" of 'train'"));
    EXPECT_THAT(ended.err, HasSubstr("retort resume " + name));
    EXPECT_NE(kill(worker, 0), 0) << "it has ended, too";
    const auto steps = values(name, "train/loss").size();
    const Ended resumed =
        retort("resume " + name + " train.epochs=" + std::to_string(steps / 2 + 2), folder_.path());
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
  }
}

TEST_F(FaultyRanks, TimeoutBelowOneSecondIsRejected) {
  const Ended ended = train("no-time", 2, "device.collective_timeout_seconds=0");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("[/device/collective_timeout_seconds]"));
}

TEST_F(FaultyRanks, FailureOfOneRankIsReportedAsTheReason) {
  const Ended ended = train("failed", 2, "", "retort-worker-1/step:2:fail");
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 1: "));
  EXPECT_THAT(ended.err, HasSubstr("a test requested that this step fail"));
}

TEST_F(FaultyRanks, AllRecoverWhenOneRankRunsOutOfMemory) {
  ASSERT_EQ(train("enough", 2).exit, 0);
  int recovered = 0;
  for (int block = 120; block < 900; block += 65) {
    const std::string name = "short-" + std::to_string(block);
    const Ended ended =
        train(name, 2, "", "retort-worker-1/alloc:" + std::to_string(block) + ":fail");
    if (ended.exit == 1) {  // outside a step
      EXPECT_THAT(ended.err, HasSubstr("rank 1: ")) << block;
      continue;
    }
    ASSERT_EQ(ended.exit, 0) << block << ended.err;
    recovered += ended.err.find("recovered once") != std::string::npos;
    EXPECT_EQ(values(name, "train/loss").size(), 4);
    EXPECT_TRUE(weights(name) == weights("enough")) << "the step is repeated exactly";
  }
  EXPECT_GT(recovered, 3);
}

TEST_F(FaultyRanks, RunCanBeResumedOnAnotherNumberOfRanks) {
  ASSERT_EQ(train("alone", 1).exit, 0);
  EXPECT_EQ(train("more", 3, "memory.max_retries=0", "retort-worker/step:3:kill").exit, 1);
  const Ended resumed = retort("resume more device.count=1", folder_.path());
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  expect_reordered(values("more", "train/loss"), values("alone", "train/loss"));
}

}  // namespace
