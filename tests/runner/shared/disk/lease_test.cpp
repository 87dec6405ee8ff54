#include "runner/shared/disk/lease.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>
#include <vector>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/parked_thread.h"
#include "tests/support/program.h"
#include "tests/support/system_calls.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

/// A child process that does `body`, then waits until it is killed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const auto held = body();
      [[maybe_unused]] const auto size = write(ready[1], "x", 1);
      for (;;) pause();
    }
    close(ready[1]);
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

class LeaseTest : public testing::Test {
 protected:
  /// Writes the lease of a process on another machine, after some heartbeats.
  void forge(const std::string& beat = "00000000000000000007",
             const std::string& state = "held") const {
    folder_.write(
        "lease.1",
        "retort lease 1\nstate " + state + "\nbeat " + beat +
            "\nprocess 12\nstarted 99\nboot of-another-machine\nspace pid:[1]\nhost node7\n");
  }
  /// Checks without waiting; `seen` is called between two checks.
  static Lease::Options quickly(std::function<void()> seen = {}) {
    return {.wait = [seen](std::chrono::milliseconds) {
      if (seen) seen();
    }};
  }
  Lease::Taken take(std::function<void()> seen = {}) const {
    return Lease::take(folder_.path(), quickly(std::move(seen)));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  TemporaryFolder folder_;
};

TEST_F(LeaseTest, OneProcessHoldsTheLeaseUntilItIsReleased) {
  {
    const auto mine = take();
    ASSERT_TRUE(mine.lease);
    EXPECT_THAT(Lease::holder_of(folder_.path()),
                StartsWith("process " + std::to_string(getpid()) + " on '"));
    EXPECT_EQ(Lease::is_at_work(folder_.path(), true), true);
    const auto other = take();
    EXPECT_FALSE(other.lease);
    EXPECT_THAT(other.holder, StartsWith("process " + std::to_string(getpid())));
  }
  EXPECT_EQ(Lease::holder_of(folder_.path()), "");
  EXPECT_EQ(Lease::is_at_work(folder_.path(), true), false);
  EXPECT_TRUE(take().lease);
}

TEST_F(LeaseTest, LeaseOfAKilledProcessIsTakenImmediately) {
  Child holder([&] { return take(); });
  EXPECT_FALSE(take().lease);
  holder.end();
  EXPECT_EQ(Lease::is_at_work(folder_.path(), false), false);
  EXPECT_TRUE(take([] { ADD_FAILURE() << "nothing to wait for"; }).lease);
}

TEST_F(LeaseTest, LeaseWithAReusedProcessIdIsTaken) {
  std::string text;
  {
    const auto mine = take();
    text = file_text(folder_ / "lease.1");
  }
  const std::size_t started = text.find("started ") + 8;
  text.insert(started, "9");
  folder_.write("lease.1", text);
  EXPECT_TRUE(take().lease);
}

TEST_F(LeaseTest, RemoteLeaseWithAHeartbeatIsRespected) {
  for (int look = 1; look <= 6; ++look) {
    forge();
    int looks = 0;
    const auto taken = take([&] {
      if (++looks == look) forge("00000000000000000008");
    });
    EXPECT_FALSE(taken.lease) << look;
    EXPECT_EQ(taken.holder, "process 12 on 'node7'");
    EXPECT_EQ(looks, look);
  }
}

TEST_F(LeaseTest, SilentRemoteLeaseIsTaken) {
  forge();
  std::string said;
  Lease::Options options = quickly();
  int looks = 0;
  options.wait = [&](std::chrono::milliseconds time) {
    EXPECT_EQ(time.count(), 5000);
    ++looks;
  };
  options.on_wait = [&](const std::string& line) { said += line; };
  EXPECT_TRUE(Lease::take(folder_.path(), options).lease);
  EXPECT_EQ(looks, 6);
  EXPECT_THAT(said, StartsWith("process 12 on 'node7' was working in '"));
  EXPECT_THAT(said, testing::EndsWith("': waiting 30 s for a heartbeat"));
}

TEST_F(LeaseTest, ReleasedRemoteLeaseIsTaken) {
  forge("00000000000000000007", "free");
  EXPECT_TRUE(take([] { ADD_FAILURE() << "nothing to wait for"; }).lease);
}

TEST_F(LeaseTest, TruncatedLeaseIsTakenAfterWaiting) {
  for (const char* text : {"", "retort lease 1\nstate he", "something else\n"}) {
    folder_.write("lease.1", text);
    int looks = 0;
    EXPECT_TRUE(take([&] { ++looks; }).lease) << text;
    EXPECT_EQ(looks, 6);
    fs::remove(folder_ / "lease.2");
  }
}

TEST_F(LeaseTest, SingleCheckFindsARecentRemoteHeartbeat) {
  EXPECT_EQ(Lease::is_at_work(folder_.path(), true), std::nullopt);
  forge();
  EXPECT_EQ(Lease::is_at_work(folder_.path(), true), true);
  fs::last_write_time(folder_ / "lease.1",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(Lease::is_at_work(folder_.path(), true), false);
}

// If several processes check at the same time, or slowly, only one may win.
TEST_F(LeaseTest, OneOfSeveralConcurrentTakeoversWins) {
  for (int round = 0; round < 30; ++round) {
    for (const std::string& name : files()) fs::remove(folder_ / name);
    forge();
    int start[2], won[2];
    ASSERT_EQ(pipe(start), 0);
    ASSERT_EQ(pipe(won), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      char byte;
      close(start[1]);
      [[maybe_unused]] ssize_t size = read(start[0], &byte, 1);  // all at once
      const auto taken = Lease::take(folder_.path(), quickly());
      size = write(won[1], taken.lease ? "1" : "0", 1);
      for (;;) pause();
    }
    close(start[0]);
    close(start[1]);
    int winners = 0;
    for (std::size_t i = 0; i < children.size(); ++i) {
      char byte = '?';
      ASSERT_EQ(read(won[0], &byte, 1), 1);
      winners += byte == '1' ? 1 : 0;
    }
    EXPECT_EQ(winners, 1);
    for (const pid_t child : children) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    close(won[0]);
    close(won[1]);
  }
}

TEST_F(LeaseTest, SlowTakeoverLosesToLaterHolders) {
  // After this process has found that the holder is gone, and while it waits for the holder's
  // worker, two others take and release the lease, and a third holds it.
  Child worker([&] {
    auto joined = take();
    Lease::join(folder_.path());
    return joined;
  });
  forge();
  std::optional<Lease> third;
  int waits = 0;
  const auto slow = take([&] {
    if (++waits != 7) return;  // the first six are checks
    worker.end();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(take().lease);
    third = take().lease;
  });
  ASSERT_TRUE(third);
  EXPECT_FALSE(slow.lease);
  EXPECT_EQ(files(), (std::vector<std::string>{"lease.3", "lease.4"}));
  EXPECT_THAT(slow.holder, StartsWith("process " + std::to_string(getpid())));
}

TEST_F(LeaseTest, FilesOfEarlierLeasesAreRemoved) {
  folder_.write("lease.3.node7.12.part", "");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(take().lease);
  EXPECT_THAT(files(), testing::ElementsAre("lease.4", "lease.5"));
}

TEST_F(LeaseTest, HolderSendsHeartbeatsAndNoticesALostLease) {
  std::promise<std::string> lost;
  Lease::Options options{.beat = std::chrono::milliseconds(1)};
  options.on_lost = [&](const std::string& holder) { lost.set_value(holder); };
  auto mine = Lease::take(folder_.path(), options);
  ASSERT_TRUE(mine.lease);
  const std::string before = file_text(folder_ / "lease.1");
  while (file_text(folder_ / "lease.1") == before) std::this_thread::yield();
  std::string text = before;
  text.replace(text.find("boot "), 6, "boot x");
  folder_.write("written", text);
  fs::rename(folder_ / "written", folder_ / "lease.2");  // the holder never reads a partial file
  EXPECT_THAT(lost.get_future().get(), StartsWith("process "));
  mine.lease.reset();
  EXPECT_EQ(file_text(folder_ / "lease.2"), text) << "the lease of another process is not released";
}

TEST_F(LeaseTest, ForkedHolderNeitherSendsHeartbeatsNorReleases) {
  const auto mine = Lease::take(folder_.path(), {.beat = std::chrono::hours(1)});
  ASSERT_TRUE(mine.lease);
  EXPECT_EQ(ParkedThread::count(), 1);
  const std::string before = file_text(folder_ / "lease.1");
  const pid_t child = fork();
  if (child == 0) _exit(ParkedThread::count());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(file_text(folder_ / "lease.1"), before);
}

TEST_F(LeaseTest, RemovedFolderIsNotRecreated) {
  const fs::path below = folder_ / "run";
  fs::create_directory(below);
  {
    const auto mine = Lease::take(below, quickly());
    ASSERT_TRUE(mine.lease);
    fs::remove_all(below);
  }
  EXPECT_FALSE(fs::exists(below));
  EXPECT_EQ(Lease::take(below, quickly()).error, ENOENT);
}

const Diagnostic kBusy{ErrorCode::kRunBusy, {}, "", "it is busy{}", ""};

TEST_F(LeaseTest, LeaseExcludesOthersWithoutLocks) {
  WatchedCalls calls;
  calls.break_locks();
  Child holder([&] {
    auto* own = new WatchedCalls;
    own->break_locks();
    return FolderLock::take(folder_.path(), kBusy);
  });
  EXPECT_EQ(FolderLock::is_taken(folder_.path()), true);
  const auto refused = FolderLock::take(folder_.path(), kBusy);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.errors()[0].message, StartsWith("it is busy (process "));
  holder.end();
  EXPECT_EQ(FolderLock::is_taken(folder_.path()), false);
  EXPECT_TRUE(FolderLock::take(folder_.path(), kBusy));
}

TEST_F(LeaseTest, SurvivingWorkerExcludesOthersWithoutLocks) {
  WatchedCalls calls;
  calls.break_locks();
  EXPECT_FALSE(FolderLock::join(folder_.path(), kBusy)) << "no process holds the lock";
  Child holder([&] { return take(); });
  Child worker([&] {
    auto* own = new WatchedCalls;
    own->break_locks();
    auto joined = FolderLock::join(folder_.path(), kBusy);
    if (!joined) _exit(1);
    return joined;
  });
  holder.end();
  int looks = 0;
  EXPECT_FALSE(take([&] { ++looks; }).lease);
  EXPECT_GT(looks, 10) << "the process may still be exiting";
  worker.end();
  EXPECT_TRUE(take().lease);
}

TEST_F(LeaseTest, MissingLocksAndLeasesAreAnError) {
  WatchedCalls calls;
  calls.break_locks();
  calls.fail_new_files(EROFS);
  const auto refused = FolderLock::take(folder_.path(), kBusy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors()[0].code, ErrorCode::kCannotWrite);
  EXPECT_EQ(refused.errors()[0].message, "cannot create a lease in '" + folder_.path().string() +
                                             "': Read-only file system; its file system has no "
                                             "locks either (flock: No locks available)");
  EXPECT_THAT(refused.errors()[0].help, HasSubstr("use a folder on another file system"));
}

TEST_F(LeaseTest, SystemLimitIsReported) {
  WatchedCalls calls;
  calls.fail_new_files(EMFILE);
  const auto refused = FolderLock::take(folder_.path(), kBusy);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors()[0].message,
            "too many files are open (a lease in '" + folder_.path().string() + "')");
  EXPECT_EQ(refused.errors()[0].help, "raise the limit on open files: `ulimit -n 1024`");
}

}  // namespace
}  // namespace runner
