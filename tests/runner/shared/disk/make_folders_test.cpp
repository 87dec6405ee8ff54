#include "runner/shared/disk/new_file.h"

#include <gmock/gmock.h>

#include "tests/support/power_cut_storage.h"
#include "tests/support/system_calls.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TEST(MakeFolders, CreatesMissingFolders) {
  const TemporaryFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/d/");
  make_folders(folder / "a/b");
  make_folders("");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  EXPECT_TRUE(fs::is_directory(folder / "a/b/d"));
}

TEST(MakeFolders, NewNamesAreFlushedAndOldOnesAreNot) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "a");
  const WatchedCalls calls;
  make_folders(folder / "a/b/c");
  EXPECT_THAT(calls.flushed(), ElementsAre((folder / "a").string(), (folder / "a/b").string()));
  make_folders(folder / "a/b/c");
  EXPECT_EQ(calls.flushed().size(), 2u);
}

TEST(MakeFolders, FlushedFilesInNewFoldersSurviveAPowerCut) {
  const TemporaryFolder folder, left;
  PowerCutStorage storage(folder.path());
  make_folders(folder / "a/b", storage);
  write_atomically(folder / "a/b/c", "text", storage);
  storage.leave(left.path());
  EXPECT_EQ(left.read("a/b/c"), "text");
}

TEST(MakeFolders, FileInTheWayIsReported) {
  const TemporaryFolder folder;
  folder.write("a", "in the way");
  for (const char* path : {"a", "a/b"}) {
    try {
      make_folders(folder / path);
      ADD_FAILURE() << path;
    } catch (const fs::filesystem_error& error) {
      EXPECT_EQ(error.path1(), folder / "a") << path;
    }
  }
}

}  // namespace
}  // namespace runner
