#include "runner/shared/disk/descriptor.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TEST(RegularFile, OnlyRegularFilesAreOpened) {
  const TemporaryFolder folder;
  folder.write("file", "text\n");
  std::filesystem::create_symlink(folder / "file", folder / "link");
  for (const char* name : {"file", "link"}) {
    std::string line;
    std::ifstream file = open_regular(folder / name);
    EXPECT_TRUE(std::getline(file, line)) << name;
    EXPECT_EQ(line, "text") << name;
  }
  EXPECT_EQ(open_regular(folder / "file", std::ios::binary | std::ios::ate).tellg(), 5);
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const std::filesystem::path& none :
       {folder / "none", folder.path(), folder / "loop", std::filesystem::path("/dev/null")})
    EXPECT_FALSE(open_regular(none)) << none;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(open_regular(folder / "pipe")) << "opening does not block";
}

}  // namespace
}  // namespace runner
