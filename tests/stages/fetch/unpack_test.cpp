#include "stages/fetch/unpack.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fetching.h"
#include "tests/support/refused.h"
#include "tests/support/tar_archive.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

class UnpackTest : public testing::Test {
 protected:
  UnpackTest() { fs::create_directory(folder_ / "out"); }
  runner::Diagnostics unpacked(const std::vector<TarEntry>& entries,
                               const UnpackLimits& limits = {}) {
    folder_.write("a.tgz", tar_archive(entries));
    return refusals_of(
        [&] { unpack(folder_ / "a.tgz", folder_ / "out", "inner", limits, {}, runner::disk()); });
  }
  const TemporaryFolder folder_;
};

TEST_F(UnpackTest, FilesAndFoldersGetDefaultPermissions) {
  EXPECT_THAT(unpacked({{.path = "./", .type = AE_IFDIR},
                        {.path = "./inner/", .type = AE_IFDIR, .mode = 0700},
                        {.path = "./inner/jpg/a.jpg", .text = "one", .mode = 06777},
                        {.path = "inner/b.txt", .text = "two", .mode = 0},
                        {.path = "beside.txt", .text = "three"}}),
              testing::IsEmpty());
  EXPECT_EQ(folder_.read("out/jpg/a.jpg"), "one");
  EXPECT_EQ(folder_.read("out/b.txt"), "two");
  EXPECT_EQ(folder_.read("out/beside.txt"), "three");
  struct stat status = {};
  ASSERT_EQ(::stat((folder_ / "out/jpg/a.jpg").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07111, 0u);
  EXPECT_EQ(status.st_mode & 0600, 0600u);
}

TEST_F(UnpackTest, PathsOutOfTheFolderAreRejected) {
  for (const std::string path : {"../evil", "jpg/../../evil", "/tmp/evil", "jpg/..", "a\\..\\b",
                                 "a\nb", "inner/../../evil"}) {
    EXPECT_REFUSED(unpacked({{.path = path, .text = "x"}}), kBadArchive, "", "'" + path + "'");
  }
  EXPECT_REFUSED(unpacked({{.path = "../evil", .type = AE_IFDIR}}), kBadArchive, "", "'../evil/'");
  EXPECT_FALSE(fs::exists(folder_ / "evil"));
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

TEST_F(UnpackTest, LinksAreRejectedAndNotFollowed) {
  fs::create_directory(folder_ / "elsewhere");
  EXPECT_REFUSED(
      unpacked({{.path = "jpg", .type = AE_IFLNK, .link = (folder_ / "elsewhere").string()},
                {.path = "jpg/a.jpg", .text = "x"}}),
      kBadArchive, "", "'jpg', a symbolic link");
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));
  EXPECT_REFUSED(
      unpacked({{.path = "a", .text = "x"}, {.path = "b", .link = "/etc/passwd", .is_hard = true}}),
      kBadArchive, "", "'b', a hard link");
  EXPECT_FALSE(fs::exists(folder_ / "out/b"));
}

TEST_F(UnpackTest, DevicesAndPipesAreRejected) {
  EXPECT_REFUSED(unpacked({{.path = "a", .type = AE_IFCHR}}), kBadArchive, "",
                 "'a', which is neither");
  EXPECT_REFUSED(unpacked({{.path = "a", .type = AE_IFIFO}}), kBadArchive, "",
                 "'a', which is neither");
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

TEST_F(UnpackTest, NothingIsOverwritten) {
  EXPECT_REFUSED(unpacked({{.path = "a", .text = "x"}, {.path = "./a", .text = "y"}}), kBadArchive,
                 "", "'./a' twice");
  EXPECT_EQ(folder_.read("out/a"), "x");
  EXPECT_REFUSED(unpacked({{.path = "b", .text = "x"}, {.path = "b/c", .text = "y"}}), kBadArchive,
                 "", "'b' both as a file and as a folder");
  EXPECT_REFUSED(unpacked({{.path = "inner", .text = "x"}}), kBadArchive, "", "'inner', a file");
}

TEST_F(UnpackTest, OversizedArchiveIsRejected) {
  EXPECT_REFUSED(
      unpacked({{.path = "a", .text = "x"}, {.path = "b", .text = "x"}, {.path = "c", .text = "x"}},
               {.entries = 2}),
      kBadArchive, "", "more than 2 files and folders");
  // The archive of about 64 KiB contains a file of 64 MiB.
  EXPECT_REFUSED(
      unpacked({{.path = "bomb", .text = std::string(64 << 20, '\0')}}, {.bytes = 1 << 20}),
      kBadArchive, "", "more than 1.0 MiB");
  EXPECT_LE(fs::file_size(folder_ / "out/bomb"), 1u << 20);
}

TEST_F(UnpackTest, DamagedArchiveIsRejected) {
  const std::string whole = tar_archive({{.path = "a", .text = std::string(100'000, 'x')}});
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), std::string(2000, 'x'), std::string("<html>")}) {
    folder_.write("a.tgz", bytes);
    fs::remove_all(folder_ / "out");
    fs::create_directory(folder_ / "out");
    EXPECT_REFUSED(unpack(folder_ / "a.tgz", folder_ / "out", "", {}, {}, runner::disk()),
                   kBadArchive, "", "a.tgz");
  }
}

TEST_F(UnpackTest, CancellationStopsUnpacking) {
  folder_.write("a.tgz", tar_archive({{.path = "a", .text = "x"}}));
  FetchCallbacks callbacks;
  callbacks.canceled = [] { return true; };
  EXPECT_THROW(unpack(folder_ / "a.tgz", folder_ / "out", "", {}, callbacks, runner::disk()),
               runner::Canceled);
}

TEST(SafeParts, AcceptsOnlyNames) {
  EXPECT_EQ(safe_parts("./a//b/./c/"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(safe_parts("..a/b.."), (std::vector<std::string>{"..a", "b.."}));
  for (const char* bad : {"", "/", "/a", ".", "a/..", "..", "a\x01", "a\x7f"})
    EXPECT_TRUE(safe_parts(bad).empty()) << bad;
  EXPECT_TRUE(safe_parts(std::string(256, 'a')).empty());
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "a/";
  EXPECT_TRUE(safe_parts(deep).empty());
}

}  // namespace
}  // namespace stages
