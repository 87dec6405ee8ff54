#include "runner/shared/disk/new_file.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "runner/shared/disk/fault.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/power_cut_storage.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

std::size_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

std::string failure(const fs::path& path, Storage& storage = disk()) {
  try {
    write_atomically(path, "x", storage);
  } catch (const WriteError& error) {
    return name(error.code) + " " + error.what();
  }
  return "it was written";
}

std::string failure_of_several(const fs::path& path) {
  try {
    AtomicFiles files;
    files.add(path, "x");
    files.commit();
  } catch (const WriteError& error) {
    return name(error.code) + " " + error.what();
  }
  return "it was written";
}

TEST(AtomicFile, ReplacesTheOldFileAndLeavesNoTemporaryFile) {
  const TemporaryFolder folder;
  folder.write("report.txt.part", "of a run that was killed");
  write_atomically(folder / "report.txt", "a longer first text");
  write_atomically(folder / "report.txt", "second");
  EXPECT_EQ(folder.read("report.txt"), "second");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, KeepsTheOldFileWithoutACommit) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  { AtomicFile(folder / "a").append("new"); }
  EXPECT_EQ(folder.read("a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, MissingFolderIsReported) {
  const TemporaryFolder folder;
  const std::string path = folder / "missing/report.txt";
  EXPECT_EQ(failure(path), "E0801 cannot create '" + path + "': No such file or directory");
}

TEST(AtomicFile, FailureAtAnyPointLeavesTheOldFile) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  const std::string path = folder / "a";
  for (const char* point : {"create", "write", "rename", "sync"}) {
    FaultyStorage storage(disk(), fault_from(std::string(point) + ":1:fail"));
    EXPECT_TRUE(failure(path, storage).ends_with("': Input/output error")) << point;
    EXPECT_EQ(folder.read("a"), "old") << point;
    EXPECT_EQ(files_in(folder.path()), 1) << point;
  }
}

TEST(AtomicFile, FolderFlushFailureIsAnErrorUnlessFlushingIsUnsupported) {
  const TemporaryFolder folder;
  FaultyStorage failing(disk(), fault_from("sync:2:fail"));
  EXPECT_EQ(failure(folder / "a", failing),
            "E0802 cannot write '" + folder.path().string() + "': Input/output error");

  struct Simple : ForwardingStorage {
    int syncs = 0;
    int sync(int file) override {
      if (++syncs == 1) return ForwardingStorage::sync(file);
      errno = EINVAL;
      return -1;
    }
  } simple;
  EXPECT_EQ(failure(folder / "a", simple), "it was written");
  EXPECT_EQ(simple.syncs, 2);
}

TEST(AtomicFile, LinksAreReplacedNotFollowed) {
  const TemporaryFolder folder;
  folder.write("other", "precious");
  fs::create_symlink(folder / "other", folder / "a");
  fs::create_symlink(folder / "other", folder / "a.part");
  write_atomically(folder / "a", "x");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "a")));
  EXPECT_EQ(folder.read("other"), "precious");
}

TEST(AtomicFile, DeviceIsRejectedAndKept) {
  const TemporaryFolder folder;
  const std::string path = folder / "null";
  if (mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0)
    GTEST_SKIP() << "cannot create devices here";
  const std::string refused = "E0802 cannot write '" + path + "': it is a device, not a file";
  EXPECT_EQ(failure(path), refused);
  EXPECT_EQ(failure_of_several(path), refused);
  EXPECT_TRUE(fs::is_character_file(path));
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, PipeIsRejectedAndKept) {
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const std::string refused = "E0802 cannot write '" + path + "': it is a pipe, not a file";
  EXPECT_EQ(failure(path), refused);
  EXPECT_EQ(failure_of_several(path), refused);
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, PowerCutLeavesTheOldOrTheNewFile) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  PowerCutStorage storage(folder.path());
  bool is_done = false;
  int cuts = 0;
  storage.after_each_call = [&] {
    ++cuts;
    for (const auto luck : {PowerCutStorage::Luck::kNone, PowerCutStorage::Luck::kNames}) {
      const TemporaryFolder left;
      storage.leave(left.path(), luck);
      const std::string text = left.read("a");
      EXPECT_TRUE(text == "new" || (text == "old" && !is_done))
          << "'" << text << "' after call " << cuts;
    }
  };
  write_atomically(folder / "a", "new", storage);
  is_done = true;
  storage.after_each_call();
  EXPECT_GT(cuts, 5);
}

TEST(AtomicFiles, PowerCutLeavesEachOldOrNewFile) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  folder.write("b/c", "old");
  PowerCutStorage storage(folder.path());
  bool is_done = false;
  const auto check = [&] {
    for (const auto luck : {PowerCutStorage::Luck::kNone, PowerCutStorage::Luck::kNames}) {
      const TemporaryFolder left;
      storage.leave(left.path(), luck);
      for (const char* name : {"a", "b/c", "b/d"}) {
        const std::string text = left.read(name);
        const bool is_new = name == std::string("b/d");
        EXPECT_TRUE(text == "new" || (text == (is_new ? "" : "old") && !is_done))
            << name << ": " << text;
      }
    }
  };
  storage.after_each_call = check;
  AtomicFiles files(storage);
  for (const char* name : {"a", "b/c", "b/d"}) files.add(folder / name, "new");
  files.commit();
  is_done = true;
  check();
}

TEST(AtomicFiles, LeaveNoFilesWithoutACommit) {
  const TemporaryFolder folder;
  folder.write("a", "old");
  {
    AtomicFiles files;
    files.add(folder / "a", "new");
    files.add(folder / "b", "new");
    AtomicFiles moved = std::move(files);
  }
  EXPECT_EQ(folder.read("a"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFiles, IncompleteFileIsNotPublished) {
  const TemporaryFolder folder;
  FaultyStorage storage(disk(), fault_from("write:2:full"));
  AtomicFiles files(storage);
  files.add(folder / "a", "new");
  EXPECT_THROW(files.add(folder / "b", "new"), WriteError);
  files.commit();
  EXPECT_EQ(folder.read("a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFiles, FlushEachFolderOnce) {
  const TemporaryFolder folder;
  CountingStorage storage;
  AtomicFiles files(storage);
  for (const char* name : {"a", "b", "c"}) files.add(folder / name, "new");
  files.commit({folder.path()});
  EXPECT_EQ(storage.calls, 3 * 5 + 1)
      << "for each file: leftover, file, text, flush and name; then the folder";
}

TEST(NewFile, SyncedDataSurvivesAPowerCut) {
  const TemporaryFolder folder;
  PowerCutStorage storage(folder.path());
  NewFile file(folder / "a", storage);
  sync_folder(folder.path(), storage);
  file.append("one");
  file.sync();
  file.append("two");
  const TemporaryFolder left;
  storage.leave(left.path());
  EXPECT_EQ(left.read("a"), "one");
}

TEST(NewFile, InterruptedAndShortWritesAreContinued) {
  const TemporaryFolder folder;
  int calls = 0;
  WritingStorage storage([&](int file, const char* data, std::size_t) -> ssize_t {
    if (++calls % 2 == 0) return ::write(file, data, 1);
    errno = EINTR;
    return -1;
  });
  NewFile(folder / "a", storage).append("abc");
  EXPECT_EQ(folder.read("a"), "abc");
}

}  // namespace
}  // namespace runner
