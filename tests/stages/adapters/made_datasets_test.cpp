#include <algorithm>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/adapters/data_cub200.h"
#include "stages/adapters/data_flowers102.h"
#include "stages/adapters/made_datasets.h"
#include "stages/data/image.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

TEST(MakeFlowers102, IsReadLikeThePublishedDataset) {
  const DrawingFolder folder;
  std::int64_t last = 0;
  make_flowers102(
      folder.path() / "new/data", {.classes = 4, .per_class = 9, .size = 24, .seed = 1},
      {.progress = [&](std::int64_t done, std::int64_t) { last = done; }, .canceled = {}});
  EXPECT_EQ(last, 36);
  const auto list = list_flowers102(folder / "new/data", FlowerParts::kPublished, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_EQ(list->classes.size(), 4u);
  EXPECT_EQ((*list)[Part::kTrain].size(), 8u);
  EXPECT_EQ((*list)[Part::kValidation].size(), 8u);
  EXPECT_EQ((*list)[Part::kTest].size(), 20u);
  // The files are sorted by class, but not within a class. The files of a class are contiguous.
  const auto& test = (*list)[Part::kTest];
  EXPECT_TRUE(std::ranges::is_sorted(test, {}, &ImageFile::label));
  EXPECT_FALSE(std::ranges::is_sorted(test, {}, &ImageFile::name));
  std::map<std::string, std::int64_t> labels;
  for (const auto& part : list->parts) {
    for (const ImageFile& file : part) labels[file.name] = file.label;
  }
  EXPECT_EQ(labels.size(), 36u);
  int changes = 0;
  for (auto at = std::next(labels.begin()); at != labels.end(); ++at)
    changes += at->second != std::prev(at)->second;
  EXPECT_EQ(changes, 3);
}

TEST(MakeFlowers102, MoreImagesThanTheListsCanCountAreRejected) {
  const DrawingFolder folder;
  EXPECT_REFUSED(make_flowers102(folder / "a", {.classes = 10, .per_class = 7000, .size = 16}),
                 kNotAllowedValue, "/make", "70000", "65535");
}

TEST(MakeCub200, IsReadLikeThePublishedDataset) {
  const DrawingFolder folder;
  make_cub200(folder / "data", {.classes = 3, .per_class = 5, .size = 40, .seed = 1});
  const auto list = list_cub200(folder / "data", /*boxes=*/true, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_THAT(list->classes,
              testing::ElementsAre("Stripes horizontal", "Stripes vertical", "Disc"));
  EXPECT_EQ((*list)[Part::kTrain].size(), 9u);
  EXPECT_EQ((*list)[Part::kTest].size(), 6u);
  for (const ImageFile& file : (*list)[Part::kTrain]) {
    ASSERT_TRUE(file.box);
    EXPECT_EQ(file.box->width, 25);
    EXPECT_GE(file.box->left, 0);
    EXPECT_LE(file.box->left + file.box->width, 40);
  }
  EXPECT_EQ(read_image_header(file_bytes(list->root / (*list)[Part::kTrain][0].name)).width, 40);
}

}  // namespace
}  // namespace stages
