#include "stages/data/transform.h"
#include "tests/support/chance.h"

#include <set>

#include <gtest/gtest.h>

namespace stages {
namespace {

TEST(Transform, HalfPixelsAreRoundedDownOrToEven) {
  // Of 23 pixels, 13 are cut off, 6.5 on each side; of 25, 15 are cut off, 7.5 on each side.
  const ResizeOptions down{}, even{.crop_offset = CropOffset::kRound};
  EXPECT_EQ(evaluation_cut(23, 10, 10, down).window.left, 6);
  EXPECT_EQ(evaluation_cut(23, 10, 10, even).window.left, 6);
  EXPECT_EQ(evaluation_cut(25, 10, 10, down).window.left, 7);
  EXPECT_EQ(evaluation_cut(25, 10, 10, even).window.left, 8);
  EXPECT_EQ(evaluation_cut(10, 25, 10, even).window.top, 8);
}

TEST(Transform, LongSideIsTruncatedToWholePixels) {
  const Cut cut = evaluation_cut(500, 333, 224, {});
  EXPECT_EQ(cut.height, 224);
  EXPECT_EQ(cut.width, 336);  // 336.3 before truncation
}

TEST(Transform, RandomCropsStayInsideTheImageAndWithinTheAreaRange) {
  const AugmentOptions augment{.random_resized_crop =
                                   RandomResizedCrop{.smallest_area = 0.3, .largest_area = 0.6}};
  std::set<int> lefts;
  for (std::uint64_t i = 0; i < 500; ++i) {
    Random random({7, i});
    const Cut cut = training_cut(120, 80, 32, {}, augment, random);
    EXPECT_GE(cut.from.left, 0);
    EXPECT_GE(cut.from.top, 0);
    EXPECT_LE(cut.from.left + cut.from.width, 120);
    EXPECT_LE(cut.from.top + cut.from.height, 80);
    EXPECT_NEAR(cut.from.width * cut.from.height / 9600.0, 0.45, 0.17);
    EXPECT_EQ(cut.window, (Box{0, 0, 32, 32}));
    lefts.insert(cut.from.left);
  }
  EXPECT_GT(lefts.size(), 30u);
}

TEST(Transform, ImageTooNarrowForARandomCropIsCenterCropped) {
  const AugmentOptions augment{.random_resized_crop =
                                   RandomResizedCrop{.smallest_area = 1, .largest_area = 1}};
  Random random({1});
  EXPECT_EQ(training_cut(10, 100, 32, {}, augment, random).from, (Box{0, 43, 10, 13}));
  EXPECT_EQ(training_cut(100, 10, 32, {}, augment, random).from, (Box{43, 0, 13, 10}));
}

TEST(Transform, FlipsWithTheGivenProbability) {
  int flips = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Random random({3, i});
    flips +=
        training_cut(40, 40, 32, {}, {.random_resized_crop = {}, .horizontal_flip = 0.25}, random)
            .mirrored;
  }
  EXPECT_NEAR(flips, 500, count_error(2000, 0.25));
}

TEST(Transform, CropScalesWithTheImage) {
  const Cut cut{{20, 10, 60, 40}, 16, 16, {0, 0, 16, 16}};
  const Image half(50, 40);
  EXPECT_EQ(at_size(cut, {100, 80, 1}, half).from, (Box{10, 5, 30, 20}));
  EXPECT_EQ(at_size(cut, {80, 100, 6}, half).from, (Box{10, 5, 30, 20}));
}

}  // namespace
}  // namespace stages
