#include "runner/shared/record/recorded_run.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/system_calls.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TEST(RunLock, WorkerMayJoinButOthersCannotTakeIt) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / ".retort");
  {
    const auto mine = RunLock::take(folder.path());
    ASSERT_TRUE(mine);
    EXPECT_TRUE(RunLock::join(folder.path()));
    const auto other = RunLock::take(folder.path());
    ASSERT_FALSE(other);
    EXPECT_EQ(other.errors().at(0).message,
              "the run '" + folder.path().string() + "' is still running");
    EXPECT_TRUE(other.errors().at(0).help.starts_with("wait until it ends, or stop it (process " +
                                                      std::to_string(getpid()) + " on '"));
  }
  EXPECT_TRUE(RunLock::take(folder.path()));
}

TEST(RunLock, ConcurrentCheckDoesNotPreventTakingTheLock) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".retort");
  WatchedCalls calls;
  calls.refuse_locks(1, /*after=*/1);
  EXPECT_TRUE(RunLock::take(folder.path()));
}

TEST(StatusNow, UnlockedRunIsInterrupted) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".retort");
  {
    const auto mine = RunLock::take(folder.path());
    EXPECT_EQ(status_now(folder.path(), "running"), "running");
    EXPECT_TRUE(RunLock::join(folder.path())) << "checking took no lock";
  }
  EXPECT_EQ(status_now(folder.path(), "running"), "interrupted");
  EXPECT_EQ(status_now(folder.path(), "failed"), "failed");
  EXPECT_TRUE(RunLock::take(folder.path())) << "and no lock was kept";
}

TEST(StatusNow, IsTheRecordedStatusWithoutALock) {
  const TemporaryFolder folder;
  EXPECT_EQ(status_now(folder.path(), "running"), "running");
  std::filesystem::create_directory(folder / ".retort");
  WatchedCalls calls;
  calls.break_locks();
  EXPECT_EQ(status_now(folder.path(), "running"), "running");
}

TEST(StatusNow, RemoteRunStatusDependsOnItsHeartbeat) {
  const TemporaryFolder folder;
  const auto lease =
      folder.write(".retort/lease.1",
                   "retort lease 1\nstate held\nbeat 00000000000000000007\nprocess 12\nstarted 99\n"
                   "boot of-another-machine\nspace pid:[1]\nhost node7\n");
  EXPECT_EQ(status_now(folder.path(), "running"), "running");
  EXPECT_EQ(status_now(folder.path(), "finished"), "finished");
  std::filesystem::last_write_time(
      lease, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(status_now(folder.path(), "running"), "interrupted");
}

TEST(StatusNow, WorksWithoutFileLocks) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".retort");
  WatchedCalls calls;
  calls.break_locks();
  {
    const auto mine = RunLock::take(folder.path());
    ASSERT_TRUE(mine);
    EXPECT_EQ(status_now(folder.path(), "running"), "running");
  }
  EXPECT_EQ(status_now(folder.path(), "running"), "interrupted");
}

TEST(RunLock, IsNotTakenThroughALink) {
  const TemporaryFolder folder, other;
  std::filesystem::create_directory(other.path() / ".retort");
  std::filesystem::create_directory_symlink(other.path() / ".retort", folder / ".retort");
  for (const bool joins : {false, true}) {
    const auto refused = joins ? RunLock::join(folder.path()) : RunLock::take(folder.path());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.errors().at(0).message,
              "cannot open '" + (folder / ".retort").string() + "': Not a directory");
  }
}

TEST(RunLock, IsNotInheritedByChildPrograms) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".retort");
  const WatchedCalls calls;
  EXPECT_TRUE(RunLock::take(folder.path()));
  const int wanted = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  EXPECT_EQ(calls.flags_of(folder / ".retort") & wanted, wanted);
}

TEST(RunLock, WaitsForAnExitingWorker) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / ".retort");
  WatchedCalls calls;
  calls.refuse_locks(2);
  EXPECT_TRUE(RunLock::take(folder.path()));
}

TEST(RunLock, EndsWithTheProcessThatHoldsIt) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / ".retort");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = RunLock::take(folder.path());
    [[maybe_unused]] const auto size = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(RunLock::join(folder.path() / "elsewhere"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(RunLock::take(folder.path()));
}

}  // namespace
}  // namespace runner
