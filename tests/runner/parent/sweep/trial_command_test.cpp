#include "runner/parent/sweep/run_task.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;

TEST(TrialCommand, NewRunReplacesAFolderThatCannotBeContinued) {
  const TemporaryFolder folder;
  const SweepLayout sweep(folder.path());
  folder.write("3/half", "");
  const WorkerCommand command = trial_command(sweep, 3, "retort", {"--log-level", "debug"});
  EXPECT_FALSE(is_resumed(command));
  EXPECT_THAT(command.arguments,
              ElementsAre("run", sweep.recipe(3).string(), "run.dir=" + sweep.run(3).string(), "-q",
                          "--log-level", "debug"));
  EXPECT_TRUE(std::filesystem::exists(folder / "3.attempt-1/half"));
}

TEST(LastLines, KeepsTheLastLinesOfInputReceivedInPieces) {
  LastLines lines;
  for (int line = 0; line < 50; ++line) lines.add("line " + std::to_string(line) + "\n");
  lines.add("be");
  lines.add("gun");
  const auto last = lines.take();
  EXPECT_EQ(last.size(), 40u);
  EXPECT_EQ(last.front(), "line 11");
  EXPECT_EQ(last.back(), "begun");
}

TEST(FailureReason, IsTheFirstErrorOrTheExitCode) {
  EXPECT_EQ(failure_reason({"a", "x.yaml:1:2: error[E0706]: no", "error[E0001]: later"}, 1),
            "error[E0706]: no");
  EXPECT_EQ(failure_reason({"a"}, 137), "exit code 137");
}

TEST(RunStatus, IsReadFromTheSummary) {
  const TemporaryFolder run;
  EXPECT_EQ(run_status(run.path()), "");
  run.write("summary.json", "{\"status\": \"finished\"}");
  EXPECT_EQ(run_status(run.path()), "finished");
  run.write("summary.json", "{\"status\": ");
  EXPECT_EQ(run_status(run.path()), "");
}

}  // namespace
}  // namespace runner
