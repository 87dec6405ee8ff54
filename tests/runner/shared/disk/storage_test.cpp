#include "runner/shared/disk/storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <gmock/gmock.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "tests/support/system_calls.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TEST(RealDisk, SyncReachesTheSystem) {
  const TemporaryFolder folder;
  const Descriptor file(disk().create(folder / "a"));
  const WatchedCalls calls;
  EXPECT_EQ(disk().sync(*file), 0);
  sync_folder(folder.path());
  EXPECT_THAT(calls.flushed(), ElementsAre((folder / "a").string(), folder.path().string()));
}

TEST(RealDisk, FailedSyncIsReported) {
  EXPECT_EQ(disk().sync(-1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(RealDisk, NewFilesAreExclusiveAndNotLinks) {
  const TemporaryFolder folder;
  const WatchedCalls calls;
  const Descriptor file(disk().create(folder / "a"));
  EXPECT_TRUE(file.is_open());
  const int flags = calls.flags_of(folder / "a");
  for (const int flag : {O_CREAT, O_EXCL, O_NOFOLLOW, O_CLOEXEC}) EXPECT_EQ(flags & flag, flag);
  EXPECT_EQ(fcntl(*file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(RealDisk, ExistingFilesAreNotOpened) {
  const TemporaryFolder folder;
  folder.write("file", "precious");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  for (const char* name : {"file", "link", "dangling"}) {
    EXPECT_EQ(disk().create(folder / name), -1) << name;
    EXPECT_EQ(errno, EEXIST) << name;
  }
  EXPECT_EQ(folder.read("file"), "precious");
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
}

TEST(RealDisk, AtomicFileFlushesItselfAndThenItsName) {
  const TemporaryFolder folder;
  const WatchedCalls calls;
  write_atomically(folder / "a", "text");
  EXPECT_THAT(calls.flushed(), ElementsAre((folder / "a.part").string(), folder.path().string()));
}

}  // namespace
}  // namespace runner
