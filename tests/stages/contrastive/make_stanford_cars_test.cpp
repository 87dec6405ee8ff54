#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/contrastive/data_stanford_cars.h"
#include "stages/data/image.h"
#include "tests/support/pictures.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

TEST(MakeStanfordCars, IsReadLikeThePublishedDataset) {
  const DrawingFolder folder;
  make_stanford_cars(folder / "data", {.classes = 5, .per_class = 7, .size = 40, .seed = 1});
  const auto list = list_stanford_cars(folder / "data", CarLabels::kModel, /*boxes=*/true, false);
  ASSERT_TRUE(list) << list.errors().front().message;
  EXPECT_THAT(list->classes,
              testing::ElementsAre("AM General Stripes Horizontal Sedan 2000",
                                   "AM General Stripes Vertical Coupe 2001",
                                   "AM General Disc SUV 2002", "Aston Martin Frame Sedan 2003",
                                   "Aston Martin Checkerboard Coupe 2004"));
  EXPECT_FALSE(list->no_test);
  EXPECT_EQ((*list)[Part::kTrain].size(), 20u);
  EXPECT_EQ((*list)[Part::kTest].size(), 15u);
  EXPECT_EQ((*list)[Part::kTrain][0].name, "cars_train/00001.jpg");
  EXPECT_FALSE(std::ranges::is_sorted((*list)[Part::kTrain], {}, &ImageFile::label));
  std::map<std::int64_t, int> counts;
  for (const auto& part : list->parts) {
    for (const ImageFile& file : part) {
      ++counts[file.label];
      ASSERT_TRUE(file.box);
      EXPECT_EQ(file.box->width, 25);
      EXPECT_GE(file.box->left, 0);
      EXPECT_LE(file.box->left + file.box->width, 40);
    }
  }
  for (const auto& [label, count] : counts) EXPECT_EQ(count, 7) << label;
  EXPECT_EQ(read_image_header(file_bytes(list->root / "cars_test/00015.jpg")).width, 40);
}

}  // namespace
}  // namespace stages
