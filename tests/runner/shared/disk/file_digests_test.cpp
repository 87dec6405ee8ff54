#include "runner/shared/disk/file_digests.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>

#include <gtest/gtest.h>

#include "runner/shared/disk/digest.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLater = 4'000'000'000'000'000'000;  // in 2096

class FileDigestsTest : public testing::Test {
 protected:
  fs::path cache() const { return folder_ / "cache"; }
  /// Returns how many of these files are read to compute their digests, long after they were
  /// written.
  std::int64_t count_read(const std::vector<std::string>& names) const {
    FileDigests digests(cache(), [] { return kLater; });
    for (const std::string& name : names)
      EXPECT_EQ(digests.of(folder_ / name), sha256(folder_.read(name))) << name;
    return digests.count_read();
  }
  /// Writes other bytes of the same size and restores the modification time.
  void rewrite(const std::string& name, const std::string& text) const {
    const auto before = file_state(folder_ / name);
    const auto time = fs::last_write_time(folder_ / name);
    for (int i = 0; i < 1'000 && file_state(folder_ / name) == before;
         ++i) {  // until the file system's clock moves
      folder_.write(name, text);
      fs::last_write_time(folder_ / name, time);
    }
    EXPECT_EQ(file_state(folder_ / name)->modified, before->modified);
    EXPECT_EQ(file_state(folder_ / name)->size, before->size);
  }
  /// The only file of the cache.
  fs::path kept() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(cache()), {}), 1);
    return fs::directory_iterator(cache())->path();
  }
  TemporaryFolder folder_;
};

TEST_F(FileDigestsTest, FileIsReadOnce) {
  folder_.write("a", "one");
  folder_.write("b", "two");
  EXPECT_EQ(count_read({"a", "b"}), 2);
  EXPECT_EQ(count_read({"a", "b"}), 0);
  folder_.write("c", "three");
  EXPECT_EQ(count_read({"a", "b", "c"}), 1);
}

TEST_F(FileDigestsTest, ChangedBytesOfTheSameSizeAndTimeAreDetected) {
  folder_.write("a", "one");
  EXPECT_EQ(count_read({"a"}), 1);
  rewrite("a", "eno");
  EXPECT_EQ(count_read({"a"}), 1);
}

TEST_F(FileDigestsTest, SwappedFilesAreDetected) {
  folder_.write("a", "one");
  folder_.write("b", "two");
  fs::last_write_time(folder_ / "b", fs::last_write_time(folder_ / "a"));
  EXPECT_EQ(count_read({"a", "b"}), 2);
  fs::rename(folder_ / "a", folder_ / "c");
  fs::rename(folder_ / "b", folder_ / "a");
  fs::rename(folder_ / "c", folder_ / "b");
  EXPECT_EQ(count_read({"a", "b"}), 2);
}

TEST_F(FileDigestsTest, RecentlyChangedFileIsNotCached) {
  folder_.write("a", "one");
  const std::int64_t changed = file_state(folder_ / "a")->changed;
  for (int time = 0; time < 2; ++time) {
    FileDigests digests(cache(), [&] { return changed + 1'000'000'000; });
    EXPECT_EQ(digests.of(folder_ / "a"), sha256("one"));
    EXPECT_EQ(digests.count_read(), 1);
  }
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(FileDigestsTest, DamagedCacheIsNotUsed) {
  folder_.write("a", "one");
  ASSERT_EQ(count_read({"a"}), 1);
  const fs::path file = kept();
  const std::string whole = folder_.read(fs::path("cache") / file.filename());
  ASSERT_EQ(whole.size(), 16u + 32 + 32);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    std::ofstream(file, std::ios::binary) << damaged;
    ASSERT_EQ(count_read({"a"}), 1) << at;
    std::ofstream(file, std::ios::binary) << whole.substr(0, at);
    ASSERT_EQ(count_read({"a"}), 1) << at;
  }
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_EQ(count_read({"a"}), 0);
}

TEST_F(FileDigestsTest, OldestEntriesAreRemoved) {
  folder_.write("a", "one");
  ASSERT_EQ(count_read({"a"}), 1);
  const fs::path file = kept();
  // Fills the cache with as many foreign entries as are allowed. The checksum at its end covers
  // everything before it.
  const std::string others(4096 * 48, '\1');
  Digest sum;
  sum.update("digests of files, 1\n" + others);
  const std::string digits = sum.finish();
  std::string full = others;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    full += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  std::ofstream(file, std::ios::binary) << full;
  EXPECT_EQ(count_read({"a"}), 1);
  EXPECT_EQ(fs::file_size(file), full.size());
  EXPECT_EQ(count_read({"a"}), 0);
}

TEST_F(FileDigestsTest, ConcurrentProgramsKeepEachOthersEntries) {
  std::vector<std::string> ones, others;
  for (int i = 0; i < 300; ++i) {
    folder_.write("one" + std::to_string(i), std::to_string(i));
    folder_.write("other" + std::to_string(i), std::to_string(i));
    ones.push_back("one" + std::to_string(i));
    others.push_back("other" + std::to_string(i));
  }
  {
    FileDigests first(cache(), [] { return kLater; });
    for (const std::string& name : ones) first.of(folder_ / name);
    EXPECT_EQ(count_read(others), 300);
  }
  EXPECT_EQ(count_read(ones), 0);
  EXPECT_EQ(count_read(others), 0);
}

TEST_F(FileDigestsTest, FolderDigestCoversNamesAndContents) {
  const auto now = [&] { return digest_below(folder_ / "data"); };
  EXPECT_EQ(now(), "");
  folder_.write("data/a", "one");
  folder_.write("data/below/b", "two");
  const std::string first = now();
  folder_.write("data/.hidden/c", "three");
  EXPECT_EQ(now(), first);
  EXPECT_EQ(digest_below(folder_ / "data/a"), sha256("one"));
  folder_.write("data/below/b", "owt");
  const std::string other = now();
  EXPECT_NE(other, first);
  fs::rename(folder_ / "data/a", folder_ / "data/c");
  EXPECT_NE(now(), other);
}

TEST_F(FileDigestsTest, IrregularFilesHaveNoDigest) {
  FileDigests digests(cache());
  EXPECT_EQ(digests.of(folder_ / "nowhere"), std::nullopt);
  EXPECT_EQ(digests.of(folder_.path()), std::nullopt);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(digests.of(folder_ / "pipe"), std::nullopt);
}

TEST_F(FileDigestsTest, EntriesStayInMemoryWithoutACacheFolder) {
  folder_.write("a", "one");
  FileDigests digests("", [] { return kLater; });
  EXPECT_EQ(digests.of(folder_ / "a"), sha256("one"));
  EXPECT_EQ(digests.of(folder_ / "a"), sha256("one"));
  EXPECT_EQ(digests.count_read(), 1);
}

TEST_F(FileDigestsTest, UnwritableCacheIsNotAnError) {
  folder_.write("a", "one");
  folder_.write("cache", "a file");
  EXPECT_EQ(count_read({"a"}), 1);
  EXPECT_EQ(count_read({"a"}), 1);
}

}  // namespace
}  // namespace runner
