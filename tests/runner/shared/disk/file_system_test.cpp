#include "runner/shared/disk/file_digests.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class Disk : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder / "sub"); }

  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
};

TEST_F(Disk, ReadsAFileUpToItsLimit) {
  std::ofstream(folder / "a.yaml", std::ios::binary) << std::string(40'000, 'x') + "\r\n";
  EXPECT_EQ(real_file_system().read(folder / "a.yaml", 40'002)->size(), 40'002u);
  EXPECT_EQ(real_file_system().read(folder / "a.yaml", 40'001), std::nullopt);
}

TEST_F(Disk, MissingFilesFoldersAndDevicesAreNotRead) {
  EXPECT_EQ(real_file_system().read(folder / "none", 10), std::nullopt);
  EXPECT_EQ(real_file_system().read(folder, 10), std::nullopt);
  EXPECT_EQ(real_file_system().read("/dev/zero", 10), std::nullopt);
  EXPECT_EQ(real_file_system().read("/dev/null", 10), std::nullopt);
  EXPECT_FALSE(real_file_system().is_file(folder));
  EXPECT_TRUE(real_file_system().is_folder(folder));
}

TEST_F(Disk, ListsNamesSorted) {
  std::ofstream(folder / "b") << "";
  std::ofstream(folder / "a") << "";
  EXPECT_THAT(real_file_system().list(folder), testing::ElementsAre("a", "b", "sub"));
  EXPECT_THAT(real_file_system().list(folder / "none"), testing::IsEmpty());
}

}  // namespace
}  // namespace runner
