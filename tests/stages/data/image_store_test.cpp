#include "stages/data/image_store.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/fault.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

constexpr std::int64_t kPlenty = 1 << 20;

class ImageStoreTest : public testing::Test {
 protected:
  std::unique_ptr<ImageStore> opened(std::int64_t most = kPlenty, const std::string& how = "cut",
                                     const std::string& build = "1") const {
    auto store = std::make_unique<ImageStore>(most, how);
    store->open(folder_.path(), build);
    return store;
  }
  fs::path folder() const { return folder_ / "pictures"; }
  static StoredImage made(std::uint64_t seed) {
    return {{std::make_shared<const Image>(picture(20, 16, seed)), 200, 160},
            seed % 2 == 1,
            seed % 2 == 0};
  }
  static std::string key(char letter) { return std::string(64, letter); }
  fs::path entry(char letter) const {
    return folder() / std::string(2, letter) / std::string(62, letter);
  }
  void age(char letter, int by) const {
    fs::last_write_time(entry(letter), fs::file_time_type::clock::now() - hours(by));
  }
  std::set<char> there() const {
    std::set<char> letters;
    for (const char letter : std::string("abcdef"))
      if (fs::exists(entry(letter))) letters.insert(letter);
    return letters;
  }
  DrawingFolder folder_;
};

TEST_F(ImageStoreTest, RoundTripKeepsAnImage) {
  opened()->put(key('a'), made(3));
  const auto another = opened();
  const auto found = another->find(key('a'));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kept.image->pixels, made(3).kept.image->pixels);
  EXPECT_EQ(found->kept.image->width, 20);
  EXPECT_EQ(found->kept.width, 200);
  EXPECT_EQ(found->kept.height, 160);
  EXPECT_TRUE(found->is_unlike);
  EXPECT_FALSE(found->had_16_bits);
  opened()->put(key('c'), made(2));
  const auto other = another->find(key('c'));
  ASSERT_TRUE(other);
  EXPECT_FALSE(other->is_unlike);
  EXPECT_TRUE(other->had_16_bits);
  EXPECT_FALSE(another->find(key('b')));
}

TEST_F(ImageStoreTest, DamagedEntryIsIgnored) {
  opened()->put(key('a'), made(3));
  const std::vector<std::uint8_t> whole = file_bytes(entry('a'));
  for (const std::size_t place :
       {std::size_t{0}, std::size_t{64}, std::size_t{70}, std::size_t{81}, whole.size() - 1}) {
    std::vector<std::uint8_t> damaged = whole;
    damaged[place] ^= 1;
    write_bytes(entry('a'), damaged);
    EXPECT_FALSE(opened()->find(key('a'))) << place;
    EXPECT_FALSE(fs::exists(entry('a'))) << place;
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{30}, std::size_t{70}, whole.size() - 1}) {
    write_bytes(entry('a'), {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_FALSE(opened()->find(key('a'))) << size;
  }
  opened()->put(key('a'), made(3));
  EXPECT_TRUE(opened()->find(key('a')));
}

TEST_F(ImageStoreTest, LeastRecentlyUsedEntryIsEvicted) {
  opened()->put(key('a'), made(1));
  const auto one = static_cast<std::int64_t>(fs::file_size(entry('a')));
  for (const char letter : std::string("bc")) opened()->put(key(letter), made(2));
  age('a', 2);
  age('b', 3);
  age('c', 1);
  const auto full = opened(3 * one);
  EXPECT_TRUE(full->find(key('a')));
  full->put(key('d'), made(4));
  EXPECT_EQ(there(), (std::set{'a', 'c', 'd'}));
  full->put(key('e'), made(5));
  EXPECT_EQ(there(), (std::set{'a', 'd', 'e'}));
  full->put(key('f'), made(6));
  EXPECT_EQ(there(), (std::set{'a', 'd', 'e'})) << "entries in use stay";
}

TEST_F(ImageStoreTest, KeyDependsOnContentBoxAndPreprocessing) {
  write_bytes(folder_ / "a.png", {1, 2, 3});
  const std::vector<std::uint8_t> bytes = {1, 2, 3}, other = {1, 2, 4};
  const auto one = opened();
  const auto otherwise = opened(kPlenty, "another cut"), rebuilt = opened(kPlenty, "cut", "2");
  const std::string known = one->key(folder_ / "a.png", {}, bytes);
  EXPECT_EQ(one->key(folder_ / "b.png", {}, bytes), known);
  EXPECT_NE(one->key(folder_ / "b.png", {}, other), known);
  EXPECT_NE(one->key(folder_ / "b.png", Box{0, 0, 1, 1}, bytes), known);
  EXPECT_NE(otherwise->key(folder_ / "a.png", {}, bytes), known);
  EXPECT_NE(rebuilt->key(folder_ / "a.png", {}, bytes), known);
}

TEST_F(ImageStoreTest, ReplacedFileIsReadAgain) {
  write_bytes(folder_ / "a.png", {1, 2, 3});
  const auto one = opened();
  EXPECT_FALSE(one->known_key(folder_ / "a.png", {}));
  const std::string known = one->key(folder_ / "a.png", {}, std::vector<std::uint8_t>{1, 2, 3});
  EXPECT_EQ(one->known_key(folder_ / "a.png", {}), known);
  const auto time = fs::last_write_time(folder_ / "a.png");
  write_bytes(folder_ / "new.png", {1, 2, 4});
  fs::rename(folder_ / "new.png", folder_ / "a.png");
  fs::last_write_time(folder_ / "a.png", time);
  EXPECT_FALSE(one->known_key(folder_ / "a.png", {}));
  fs::remove(folder_ / "a.png");
  EXPECT_FALSE(one->known_key(folder_ / "a.png", {}));
}

TEST_F(ImageStoreTest, NothingIsStoredIfWritingFails) {
  for (const char* const fault :
       {"create:1:full", "write:1:fail", "rename:1:fail", "folder:1:fail"}) {
    runner::FaultyStorage storage(runner::disk(), runner::fault_from(fault));
    ImageStore broken(kPlenty, "cut", storage);
    broken.open(folder_ / fault, "1");
    broken.put(key('a'), made(1));
    broken.put(key('b'), made(1));
    EXPECT_FALSE(broken.find(key('a'))) << fault;
    EXPECT_FALSE(broken.find(key('b'))) << fault;
    std::size_t files = 0;
    if (fs::exists(folder_ / fault)) {
      for (const auto& one : fs::recursive_directory_iterator(folder_ / fault))
        files += one.is_regular_file() ? 1 : 0;
    }
    EXPECT_EQ(files, 0u) << fault;
  }
}

}  // namespace
}  // namespace stages
