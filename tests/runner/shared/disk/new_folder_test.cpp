#include "runner/shared/disk/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/fault.h"
#include "tests/support/durable_storage.h"
#include "tests/support/program.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

void fill(NewFolder& folder) {
  folder.create("disc");
  folder.write("disc/a.txt", "one");
  std::ofstream(folder.draft() / "other.txt") << "written by another program";
  folder.write("b.txt", "two");
}

TEST(NewFolder, AppearsAtomically) {
  const TemporaryFolder folder;
  {
    NewFolder made(folder / "new/below/shapes/");
    fill(made);
    EXPECT_FALSE(fs::exists(folder / "new/below/shapes"));
    made.publish();
  }
  EXPECT_EQ(file_text(folder / "new/below/shapes/disc/a.txt"), "one");
  EXPECT_EQ(file_text(folder / "new/below/shapes/b.txt"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "new/below"), {}), 1);
}

TEST(NewFolder, FilesAreOnTheDiskBeforeTheRename) {
  const TemporaryFolder folder;
  DurableStorage storage;
  NewFolder made(folder / "shapes", storage);
  fill(made);
  made.publish();
  EXPECT_EQ(storage.renamed, 1);
  EXPECT_THAT(storage.early, IsEmpty());
  EXPECT_TRUE(storage.has_flushed_the_latest_name());
}

TEST(NewFolder, LeavesNoFilesWithoutPublishing) {
  const TemporaryFolder folder;
  {
    NewFolder made(folder / "shapes");
    fill(made);
  }
  {
    NewFolder made(folder / "shapes", folder / ".shapes.part");
    fill(made);
    EXPECT_TRUE(fs::exists(folder / ".shapes.part/disc/a.txt"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

/// The ID of a process that has ended.
std::string of_the_dead() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return std::to_string(child);
}

TEST(NewFolder, LeftoversOfAKilledProcessAreRemoved) {
  const TemporaryFolder folder;
  const std::string dead = of_the_dead();
  folder.write(".shapes." + dead + ".part/disc/a.jpg", "half");
  for (const std::string& kept : std::initializer_list<std::string>{
           ".shapes." + std::to_string(getppid()) + ".part/a", ".shapes." + dead + "x.part/a",
           ".shape." + dead + ".part/a", ".shapes." + dead + ".part.mine/a", "shapes/a"})
    folder.write(kept, "kept");
  fs::remove_all(folder / "shapes");
  NewFolder made(folder / "shapes");
  EXPECT_FALSE(fs::exists(folder / (".shapes." + dead + ".part")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 5)
      << "four folders of others, and this one";
}

TEST(NewFolder, LockedLeftoversAreKept) {
  const TemporaryFolder folder;
  const std::string name = ".shapes." + of_the_dead() + ".part";
  folder.write(name + "/a.jpg", "half");
  const Descriptor other(open((folder / name).c_str(), O_RDONLY));
  ASSERT_EQ(flock(*other, LOCK_EX | LOCK_NB), 0);
  NewFolder made(folder / "shapes");
  EXPECT_TRUE(fs::exists(folder / (name + "/a.jpg")));
}

TEST(NewFolder, ReplacesOnlyAnEmptyFolder) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  NewFolder made(folder / "empty");
  fill(made);
  made.publish();
  EXPECT_TRUE(fs::exists(folder / "empty/b.txt"));
  try {
    NewFolder again(folder / "empty", disk(), "/root");
    FAIL();
  } catch (const WriteError& error) {
    EXPECT_EQ(error.code, ErrorCode::kFolderExists);
    EXPECT_EQ(error.option, "/root");
    EXPECT_EQ(error.what(), "'" + (folder / "empty").string() + "' already exists");
  }
}

/// The error if call `count` of a storage fails; nullopt if no call fails.
std::optional<WriteError> failure_at(int count, const fs::path& place) {
  FaultyStorage storage(
      disk(), Fault{.point = Fault::Point::kAny, .count = count, .action = Fault::Action::kFail});
  try {
    NewFolder made(place, storage, "/root");
    fill(made);
    made.publish();
    return std::nullopt;
  } catch (const WriteError& error) {
    return error;
  }
}

TEST(NewFolder, FailuresLeaveTheFolderCompleteOrAbsent) {
  int failures = 0;
  for (int count = 1;; ++count) {
    const TemporaryFolder folder;
    const auto failure = failure_at(count, folder / "shapes");
    if (fs::exists(folder / "shapes"))
      EXPECT_TRUE(fs::exists(folder / "shapes/disc/a.txt")) << count;
    else EXPECT_TRUE(failure) << count;
    if (!failure) break;
    ++failures;
    EXPECT_EQ(failure->option, "/root");
    EXPECT_EQ(failure->help, "free up space, or choose another folder");
  }
  EXPECT_GT(failures, 8);
}

}  // namespace
}  // namespace runner
