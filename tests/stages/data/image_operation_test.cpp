#include "stages/data/image_operation.h"

#include <gtest/gtest.h>

#include "tests/support/pictures.h"

namespace stages {
namespace {

TEST(ImageOperation, TranslatesByWholePixelsTowardZero) {
  const Image image = picture(9, 5);
  for (const double magnitude : {2.0, 2.9}) {
    const Image right = applied(image, {Operation::kTranslateX, magnitude});
    EXPECT_EQ(right.row(3)[3 * 8], image.row(3)[3 * 6]);
    EXPECT_EQ(right.row(3)[3], 0) << "from outside";
    EXPECT_EQ(applied(image, {Operation::kTranslateX, -magnitude}).row(3)[0], image.row(3)[3 * 2]);
  }
}

TEST(ImageOperation, BlurKeepsAUniformColor) {
  Image image(12, 7);
  std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{77});
  for (const double radius : {0.0, 0.3, 4.0, 60.0})
    EXPECT_EQ(applied(image, {Operation::kGaussianBlur, radius}).pixels, image.pixels) << radius;
}

}  // namespace
}  // namespace stages
