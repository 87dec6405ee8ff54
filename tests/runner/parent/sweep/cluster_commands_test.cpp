#include "runner/parent/sweep/task_needs.h"

#include <csignal>

#include <gtest/gtest.h>

namespace runner {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong(60000);

TEST(ClusterCommands, ReturnOutputAndExitCode) {
  ClusterCommands commands;
  const auto outcome = commands.run({"sh", "-c", "echo one; echo two >&2; exit 3"}, kLong);
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_EQ(outcome.said, "one\ntwo\n");
  EXPECT_FALSE(outcome.is_silent);
  EXPECT_EQ(commands.run({"no-such-command"}, kLong).exit, 127);
}

TEST(ClusterCommands, TimedOutCommandIsSilent) {
  ClusterCommands commands;
  const auto outcome = commands.run({"sh", "-c", "echo begun; sleep 600"}, milliseconds(300));
  EXPECT_TRUE(outcome.is_silent);
}

TEST(ClusterCommands, SignalDuringACommandEndsTheNextWait) {
  ClusterCommands commands;
  EXPECT_EQ(commands.run({"sh", "-c", "kill -TERM $PPID; sleep 0.1; echo done"}, kLong).said,
            "done\n");
  EXPECT_EQ(commands.wait(kLong), SIGTERM);
  EXPECT_EQ(commands.wait(milliseconds(1)), std::nullopt);
  raise(SIGINT);
  EXPECT_EQ(commands.wait(kLong), SIGINT);
}

}  // namespace
}  // namespace runner
