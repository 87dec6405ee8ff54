#include "stages/adapters/data_flowers102.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/data/mat_file.h"
#include "stages/data/shapes.h"
#include "tests/support/image_lists.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

std::string image_name(std::int64_t number) { return "jpg/image_" + padded(number, 5) + ".jpg"; }

class Flowers102List : public testing::Test {
 protected:
  void write(const std::string& below, const std::string& bytes) const {
    write_bytes(folder_ / below, {bytes.begin(), bytes.end()});
  }
  static MatMatrix row(const std::string& name, std::vector<std::int64_t> values) {
    const auto columns = static_cast<std::int64_t>(values.size());
    return {name, 1, columns, std::move(values)};
  }
  void write_labels(const std::vector<std::int64_t>& labels) const {
    write(inner_ + "imagelabels.mat", mat_file(std::array{row("labels", labels)}));
    for (std::size_t i = 1; i <= labels.size(); ++i)
      write(inner_ + image_name(static_cast<std::int64_t>(i)), "");
  }
  void write_lists(const std::vector<std::int64_t>& training,
                   const std::vector<std::int64_t>& validation,
                   const std::vector<std::int64_t>& test) const {
    write(inner_ + "setid.mat", mat_file(std::array{row("trnid", training),
                                                    row("valid", validation), row("tstid", test)}));
  }
  /// Seven images of three classes.
  void write_set() const {
    write_labels({3, 3, 3, 1, 1, 2, 2});
    write_lists({5, 2, 6}, {7, 1}, {4, 3});
  }
  ImageList list(FlowerParts parts = FlowerParts::kPublished) const {
    auto list = list_flowers102(folder_.path(), parts, false);
    EXPECT_TRUE(list) << (list ? "" : list.errors().front().message);
    return list ? *std::move(list) : ImageList{};
  }
  runner::Diagnostics errors(bool allow_outside = false) const {
    return refusals_of(
        [&] { return list_flowers102(folder_.path(), FlowerParts::kPublished, allow_outside); });
  }

  DrawingFolder folder_;
  std::string inner_;
};

TEST_F(Flowers102List, KeepsTheOrderOfTheListsAndCountsLabelsFromZero) {
  for (const char* const inner : {"", "flowers-102/"}) {
    inner_ = inner;
    write_set();
    const ImageList found = list();
    EXPECT_EQ(found.root, inner_.empty() ? folder_.path() : folder_ / "flowers-102");
    EXPECT_THAT(found.classes,
                ElementsAre("pink primrose", "hard-leaved pocket orchid", "canterbury bells"));
    EXPECT_THAT(
        labeled_names(found[Part::kTrain]),
        ElementsAre("0 jpg/image_00005.jpg", "2 jpg/image_00002.jpg", "1 jpg/image_00006.jpg"));
    EXPECT_THAT(labeled_names(found[Part::kValidation]),
                ElementsAre("1 jpg/image_00007.jpg", "2 jpg/image_00001.jpg"));
    EXPECT_THAT(labeled_names(found[Part::kTest]),
                ElementsAre("0 jpg/image_00004.jpg", "2 jpg/image_00003.jpg"));
    fs::remove_all(folder_ / "jpg");
  }
}

TEST_F(Flowers102List, PartsOptionReassignsTheSameLists) {
  write_set();
  const ImageList both = list(FlowerParts::kTrainAndValidation);
  EXPECT_THAT(labeled_names(both[Part::kTrain]),
              ElementsAre("0 jpg/image_00005.jpg", "2 jpg/image_00002.jpg", "1 jpg/image_00006.jpg",
                          "1 jpg/image_00007.jpg", "2 jpg/image_00001.jpg"));
  EXPECT_TRUE(both[Part::kValidation].empty());
  EXPECT_EQ(both[Part::kTest].size(), 2u);
  const ImageList swapped = list(FlowerParts::kSwapped);
  EXPECT_EQ(labeled_names(swapped[Part::kTrain]), labeled_names(both[Part::kTest]));
  EXPECT_EQ(swapped[Part::kValidation].size(), 2u);
  EXPECT_EQ(labeled_names(swapped[Part::kTest]), labeled_names(list()[Part::kTrain]));
}

TEST_F(Flowers102List, ClassNamesAreReadNextToTheLabelsOrFromTheRoot) {
  inner_ = "flowers-102/";
  write_set();
  write("cat_to_name.json", R"({"2": "two", "1": "one", "3": "three", "4": "four"})");
  EXPECT_THAT(list().classes, ElementsAre("one", "two", "three"));
  write("flowers-102/cat_to_name.json", R"({"2": "b", "1": "a", "3": "c"})");
  EXPECT_THAT(list().classes, ElementsAre("a", "b", "c"));
  write("flowers-102/cat_to_name.json", R"({"2": "b", "1": 7})");
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "", {"cat_to_name.json", "label 1"}},
                     {kBadAnnotations, "", {"label 3"}});
  write("flowers-102/cat_to_name.json", R"({"1": "a", "2": "b", "3": "a"})");
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "cat_to_name.json", "'a'");
  write("flowers-102/cat_to_name.json", "[1");
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "cat_to_name.json", "JSON");
}

TEST_F(Flowers102List, FolderWithoutTheDatasetIsRejected) {
  EXPECT_REFUSED(errors(), kMissingFolder, "", "jpg", "flowers-102");
  fs::create_directory(folder_ / "jpg");
  EXPECT_ALL_REFUSED(errors(), {kMissingAnnotations, "", {"imagelabels.mat"}},
                     {kMissingAnnotations, "", {"setid.mat"}});
}

TEST_F(Flowers102List, InvalidLabelsAndImageNumbersAreCounted) {
  write_labels({3, 0, 103, 1});
  write_lists({1}, {}, {});
  EXPECT_REFUSED(errors(), kBadAnnotations, "", "imagelabels.mat", "2 labels", "1 to 102",
                 "0 for image 2");
  write_set();
  write_lists({5, 2, 6, 2, 0}, {7, 1, 5}, {4, 8, 3});
  EXPECT_ALL_REFUSED(
      errors(), {kBadAnnotations, "", {"setid.mat", "2 image numbers", "1 to 7", "0 in 'trnid'"}},
      {kBadAnnotations, "", {"2 images", "listed twice", "2, in 'trnid' and in 'trnid'"}});
  write_lists({}, {1}, {2});
  EXPECT_THAT(errors(), testing::IsEmpty());  // testing alone needs no training images
}

TEST_F(Flowers102List, DamagedFilesAreReportedTogether) {
  write_set();
  write("imagelabels.mat", "MATLAB");
  write("setid.mat",
        mat_file(std::array{MatMatrix{"trnid", 2, 2, {1, 2, 3, 4}}, row("valid", {5})}));
  EXPECT_ALL_REFUSED(errors(), {kBadAnnotations, "", {"imagelabels.mat"}},
                     {kBadAnnotations, "", {"'trnid'", "2 rows and 2 columns"}},
                     {kBadAnnotations, "", {"'tstid'"}});
}

TEST_F(Flowers102List, MissingImagesAreReportedTogether) {
  write_set();
  for (const std::int64_t number : {2, 4}) fs::remove(folder_ / image_name(number));
  EXPECT_REFUSED(errors(), kMissingImage, "", "2 of 7 images",
                 "'jpg/image_00002.jpg', 'jpg/image_00004.jpg'");
  std::vector<std::int64_t> labels(30, 1), numbers(30);
  for (std::size_t i = 0; i < 30; ++i) numbers[i] = static_cast<std::int64_t>(i + 1);
  write_labels(labels);
  write_lists(numbers, {}, {});
  fs::remove_all(folder_ / "jpg");
  fs::create_directory(folder_ / "jpg");
  EXPECT_REFUSED(errors(), kMissingImage, "", "30 of 30 images", "'jpg/image_00001.jpg', ",
                 "'jpg/image_00020.jpg' and 10 more");
}

TEST_F(Flowers102List, LinksOutOfTheRootAreRejectedUnlessAllowed) {
  const DrawingFolder elsewhere;
  elsewhere.add("a.jpg");
  write_set();
  fs::remove(folder_ / image_name(3));
  fs::create_symlink(elsewhere / "a.jpg", folder_ / image_name(3));
  EXPECT_REFUSED(errors(), kOutsideRoot, "", "jpg/image_00003.jpg");
  EXPECT_THAT(errors(/*allow_outside=*/true), testing::IsEmpty());
  fs::rename(folder_ / "jpg", elsewhere / "jpg");
  fs::create_directory_symlink(elsewhere / "jpg", folder_ / "jpg");
  EXPECT_REFUSED(errors(), kOutsideRoot, "", "'jpg'");
  EXPECT_THAT(errors(/*allow_outside=*/true), testing::IsEmpty());
}

TEST_F(Flowers102List, FingerprintDependsOnEveryFile) {
  write_set();
  std::set<std::string> seen = {fingerprint(list())};
  EXPECT_EQ(fingerprint(list()), *seen.begin());
  write(image_name(3), "longer");
  EXPECT_TRUE(seen.insert(fingerprint(list())).second);
  write(image_name(3), "longed");
  EXPECT_TRUE(seen.insert(fingerprint(list())).second);
  write("cat_to_name.json", R"({"1": "a", "2": "b", "3": "c"})");
  EXPECT_TRUE(seen.insert(fingerprint(list())).second);
  write_lists({5, 6, 2}, {7, 1}, {4, 3});
  EXPECT_TRUE(seen.insert(fingerprint(list())).second);
  EXPECT_TRUE(seen.insert(fingerprint(list(FlowerParts::kSwapped))).second);
}

TEST_F(Flowers102List, ReadsThePublishedDataset) {
  const fs::path published = shared_data("data/flowers102-metadata");
  RETORT_NEEDS_SHARED(published);
  write("imagelabels.mat", file_text(published / "imagelabels.mat"));
  write("setid.mat", file_text(published / "setid.mat"));
  fs::create_directory(folder_ / "jpg");
  for (std::int64_t number = 1; number <= 8189; ++number)
    std::ofstream{folder_ / image_name(number)};
  const ImageList found = list();
  EXPECT_EQ(found.classes.size(), 102u);
  EXPECT_EQ(found.classes[76], "passion flower");
  EXPECT_EQ(found[Part::kTrain].size(), 1020u);
  EXPECT_EQ(found[Part::kValidation].size(), 1020u);
  EXPECT_EQ(found[Part::kTest].size(), 6149u);
  EXPECT_EQ(labeled_names(found[Part::kTrain]).front(), "0 jpg/image_06765.jpg");
  EXPECT_EQ(labeled_names(found[Part::kTest]).front(), "0 jpg/image_06734.jpg");
  std::map<std::int64_t, std::array<int, kSplitParts>> counts;
  std::set<std::string> all;
  for (std::size_t part = 0; part < kSplitParts; ++part) {
    for (const ImageFile& file : found.parts[part]) {
      ++counts[file.label][part];
      all.insert(file.name);
    }
  }
  EXPECT_EQ(all.size(), 8189u);
  int fewest = 8189, most = 0;
  for (const auto& [label, count] : counts) {
    EXPECT_EQ(count[0], 10) << label;
    EXPECT_EQ(count[1], 10) << label;
    EXPECT_GE(count[2], 20) << label;
    fewest = std::min(fewest, count[0] + count[1] + count[2]);
    most = std::max(most, count[0] + count[1] + count[2]);
  }
  EXPECT_EQ(fewest, 40);
  EXPECT_EQ(most, 258);
}

}  // namespace
}  // namespace stages
