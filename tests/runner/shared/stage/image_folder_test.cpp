#include "runner/shared/stage/image_folder.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class LeftoversTest : public testing::Test {
 protected:
  void add(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      std::filesystem::create_directories((folder_.path() / name).parent_path());
      folder_.write(name, "");
    }
  }
  TemporaryFolder folder_;
};

TEST_F(LeftoversTest, CountsFilesInClassFolders) {
  add({"a/1.jpg", "a/2.webp", "a/x.txt", "a/deeper/3.jpg", "b/4.gif", ".hidden/5.jpg", "labels.csv",
       "beside.jpg"});
  EXPECT_EQ(
      find_leftovers(folder_.path()).counts.text(),
      "4 files ignored: 1 .csv, 1 .gif, 1 .jpg, 1 .txt; 1 folder not searched; 1 hidden folder");
}

TEST_F(LeftoversTest, OnlyPartFoldersAreSearched) {
  add({"train/a/1.jpg", "train/a/x.txt", "train/y.txt", "test/a/.2.jpg", "elsewhere/z.txt"});
  EXPECT_EQ(find_leftovers(folder_.path()).counts.text(), "2 files ignored: 2 .txt; 1 hidden file");
}

TEST_F(LeftoversTest, MissingFolderHasNoLeftovers) {
  EXPECT_EQ(find_leftovers(folder_.path() / "gone").counts.text(), "");
}

TEST_F(LeftoversTest, SearchesAtMostTheGivenNumberOfEntries) {
  add({"a/1.txt", "a/2.txt", "a/3.txt", "a/4.txt"});
  const Leftovers some = find_leftovers(folder_.path(), 3);
  EXPECT_EQ(some.counts.text(), "2 files ignored: 2 .txt");
  EXPECT_FALSE(some.complete);
  EXPECT_TRUE(find_leftovers(folder_.path(), 5).complete);
}

}  // namespace
}  // namespace runner
