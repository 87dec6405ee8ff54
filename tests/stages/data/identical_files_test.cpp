#include "stages/data/identical_files.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pictures.h"

namespace stages {
namespace {

using Groups = std::vector<std::vector<ImagePlace>>;

class IdenticalFiles : public testing::Test {
 protected:
  void add(Part part, const std::string& name, const std::string& bytes) {
    write_bytes(folder_ / name, {bytes.begin(), bytes.end()});
    list_.root = folder_.path();
    list_[part].push_back({.name = name});
  }
  DrawingFolder folder_;
  ImageList list_;
};

TEST_F(IdenticalFiles, AreFoundUnderAnyName) {
  add(Part::kTrain, "a", "abc");
  add(Part::kTrain, "b", "abd");
  add(Part::kTrain, "c", "abc");
  add(Part::kTest, "d", "abc");
  add(Part::kTest, "e", "ab");
  EXPECT_EQ(identical_files(list_),
            (Groups{{{Part::kTrain, 0}, {Part::kTrain, 2}, {Part::kTest, 0}}}));
}

TEST_F(IdenticalFiles, OneDifferentByteMakesFilesDiffer) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{5000}, std::size_t{8192}, std::size_t{600'000}}) {
    std::string bytes(size, 'x');
    const std::string name = std::to_string(size);
    add(Part::kTrain, name, bytes);
    bytes[size / 2] = 'y';
    add(Part::kTest, name + "y", bytes);
    EXPECT_TRUE(identical_files(list_).empty()) << size;
  }
}

TEST_F(IdenticalFiles, MissingFileMatchesNoOther) {
  add(Part::kTrain, "a", "abc");
  add(Part::kTest, "b", "abc");
  list_[Part::kTest].push_back({.name = "gone"});
  list_[Part::kTest].push_back({.name = "gone"});
  EXPECT_EQ(identical_files(list_).size(), 1u);
}

TEST_F(IdenticalFiles, OnlyFilesOfEqualSizeAreOpened) {
  add(Part::kTrain, "a", "abc");
  add(Part::kTrain, "b", "abcd");
  add(Part::kTest, "c", "abcde");
  int looks = 0;
  identical_files(list_, [&] { ++looks; });
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace stages
