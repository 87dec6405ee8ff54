#include "runner/parent/devices/take_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/devices/device_search.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

/// A process that does `work`, then waits until the test kills it.
class KilledProcess {
 public:
  template <typename Work>
  explicit KilledProcess(const Work& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    child_ = fork();
    if (child_ == 0) {
      const auto kept = work();
      [[maybe_unused]] const auto told = write(ends[1], "x", 1);
      for (;;) pause();
    }
    close(ends[1]);
    char ready;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    close(ends[0]);
  }
  void kill() {
    ::kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

class DeviceLockTest : public testing::Test {
 protected:
  DeviceLockTest() : folder_(*LockFolder::open(temporary_.path() / "locks")) {}

  TemporaryFolder temporary_;
  LockFolder folder_;
};

TEST_F(DeviceLockTest, OnlyOneRunHoldsADevice) {
  auto first = DeviceLock::take(folder_, "GPU-a");
  ASSERT_TRUE(first);
  EXPECT_FALSE(DeviceLock::take(folder_, "GPU-a"));
  EXPECT_FALSE(DeviceLock::share(folder_, "GPU-a"));
  EXPECT_TRUE(DeviceLock::take(folder_, "GPU-b"));
  first.reset();
  EXPECT_TRUE(DeviceLock::take(folder_, "GPU-a"));
}

TEST_F(DeviceLockTest, RunsThatNameADeviceShareIt) {
  const auto one = DeviceLock::share(folder_, "GPU-a"), other = DeviceLock::share(folder_, "GPU-a");
  EXPECT_TRUE(one && other);
  EXPECT_FALSE(DeviceLock::take(folder_, "GPU-a"));
}

TEST_F(DeviceLockTest, LockOfAKilledProcessIsFreedAtOnce) {
  KilledProcess holder([&] { return DeviceLock::take(folder_, "GPU-a"); });
  EXPECT_FALSE(DeviceLock::take(folder_, "GPU-a"));
  holder.kill();
  EXPECT_TRUE(DeviceLock::take(folder_, "GPU-a"));
}

TEST_F(DeviceLockTest, TicketsKeepTheirOrderOfArrival) {
  const DeviceWant small{1, {"GPU-a"}}, large{99, {"GPU-a", "GPU-b"}};
  const DeviceTicket first(folder_, small);
  DeviceTicket second(folder_, large);
  EXPECT_THAT(DeviceTicket::wants_before(folder_, &first), IsEmpty());
  EXPECT_THAT(DeviceTicket::wants_before(folder_, &second), ElementsAre(small));
  EXPECT_THAT(DeviceTicket::wants_before(folder_, nullptr), ElementsAre(small, large));
  second.change(small);
  EXPECT_THAT(DeviceTicket::wants_before(folder_, nullptr), ElementsAre(small, small));
  {
    const DeviceTicket third(folder_, large);
    EXPECT_THAT(DeviceTicket::wants_before(folder_, &third), ElementsAre(small, small));
  }
  EXPECT_EQ(folder_.names().size(), 2U);
  EXPECT_EQ(DeviceTicket::wants_before(folder_, nullptr).size(), 2U);
}

TEST_F(DeviceLockTest, TicketOfAKilledProcessIsIgnored) {
  KilledProcess waiting([&] {
    return std::make_unique<DeviceTicket>(folder_, DeviceWant{1, {"GPU-a"}});
  });
  EXPECT_EQ(DeviceTicket::wants_before(folder_, nullptr).size(), 1U);
  waiting.kill();
  EXPECT_THAT(DeviceTicket::wants_before(folder_, nullptr), IsEmpty());
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(DeviceLockTest, MalformedTicketIsIgnored) {
  const Descriptor file = folder_.file("waiting-1");
  ASSERT_TRUE(try_lock(file));
  ASSERT_EQ(::pwrite(*file, "[1", 2, 0), 2);
  EXPECT_THAT(DeviceTicket::wants_before(folder_, nullptr), IsEmpty());
}

TEST_F(DeviceLockTest, LinkInsteadOfALockIsNotFollowed) {
  fs::create_symlink(temporary_.path() / "elsewhere", folder_.path() / "GPU-a.lock");
  EXPECT_FALSE(DeviceLock::take(folder_, "GPU-a"));
  EXPECT_FALSE(fs::exists(temporary_.path() / "elsewhere"));
}

TEST_F(DeviceLockTest, ChildProgramsDoNotInheritLocks) {
  EXPECT_NE(fcntl(*folder_.file("GPU-a.lock"), F_GETFD) & FD_CLOEXEC, 0);
}

class LockFolderTest : public testing::Test {
 protected:
  std::string refusal(const fs::path& path) {
    const auto folder = LockFolder::open(path);
    if (folder) return "";
    EXPECT_EQ(folder.errors().front().code, ErrorCode::kCannotCreate);
    help_ = folder.errors().front().help;
    std::string message = folder.errors().front().message;
    const std::string where = temporary_.path().string();
    if (const auto at = message.find(where); at != message.npos)
      message.replace(at, where.size(), "HERE");
    return message;
  }

  TemporaryFolder temporary_;
  std::string help_;
};

TEST_F(LockFolderTest, IsAccessibleOnlyToItsUser) {
  const fs::path path = temporary_.path() / "locks";
  ASSERT_TRUE(LockFolder::open(path));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(LockFolder::open(path));
}

TEST_F(LockFolderTest, IsInTheRuntimeFolderIfThatExists) {
  const char* const before = std::getenv("XDG_RUNTIME_DIR");
  const std::string own = "/tmp/retort-" + std::to_string(geteuid()),
                    runtime = temporary_.path().string();
  const auto standard_with = [](const std::string& value) {
    setenv("XDG_RUNTIME_DIR", value.c_str(), 1);
    return LockFolder::standard_path();
  };
  const std::string kept = before ? before : "";
  EXPECT_EQ(standard_with(runtime), runtime + "/retort");
  EXPECT_EQ(standard_with(runtime + "/gone"), own);
  EXPECT_EQ(standard_with("."), own);
  before ? setenv("XDG_RUNTIME_DIR", kept.c_str(), 1) : unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(LockFolderTest, FolderOfAnotherUserIsRejected) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  fs::create_directory(temporary_.path() / "locks");
  ASSERT_EQ(chown((temporary_.path() / "locks").c_str(), 12345, 0), 0);
  EXPECT_EQ(refusal(temporary_.path() / "locks"),
            "the folder for locks 'HERE/locks' belongs to user 12345, not to you");
  EXPECT_EQ(help_, "set XDG_RUNTIME_DIR to a folder of your own");
}

TEST_F(LockFolderTest, SharedFolderIsRejected) {
  fs::create_directory(temporary_.path() / "locks");
  fs::permissions(temporary_.path() / "locks", fs::perms::all);
  EXPECT_EQ(refusal(temporary_.path() / "locks"),
            "the folder for locks 'HERE/locks' can be used by others");
  EXPECT_THAT(help_, HasSubstr("chmod 700 '"));
}

TEST_F(LockFolderTest, LinkIsRejected) {
  fs::create_directory(temporary_.path() / "elsewhere");
  fs::create_directory_symlink(temporary_.path() / "elsewhere", temporary_.path() / "locks");
  EXPECT_EQ(refusal(temporary_.path() / "locks"),
            "the folder for locks 'HERE/locks' is a link or a file");
}

TEST_F(LockFolderTest, FolderThatCannotBeCreatedIsReported) {
  EXPECT_EQ(refusal(temporary_.path() / "none" / "locks"),
            "the folder for locks 'HERE/none/locks' cannot be created: No such file or directory");
}

}  // namespace
}  // namespace runner
