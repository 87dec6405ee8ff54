#include "stages/retina/retina.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "stages/data/image.h"
#include "stages/data/image_survey.h"
#include "stages/data/image_writer.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

double mean_of(const Image& image) {
  double sum = 0;
  for (const std::uint8_t value : image.pixels) sum += value;
  return sum / static_cast<double>(image.pixels.size());
}

TEST(DrawRetina, IsRoundOnBlack) {
  const Image image = draw_retina(4, 64, Random({1}));
  for (const int corner : {0, 3 * 63}) {
    EXPECT_EQ(image.row(0)[corner], 0);
    EXPECT_EQ(image.row(63)[corner], 0);
  }
  const std::uint8_t* const middle = image.row(32) + 3 * 32;
  EXPECT_GT(middle[0], middle[1]);
  EXPECT_GT(middle[1], middle[2]);
}

TEST(DrawRetina, BrightnessDoesNotRevealTheGrade) {
  constexpr int kEach = 40;
  std::array<double, 5> means{};
  double squares = 0, all = 0;
  for (std::size_t grade = 0; grade < means.size(); ++grade) {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const double mean =
          mean_of(draw_retina(static_cast<std::int64_t>(grade), 32, Random({grade, i})));
      means[grade] += mean / kEach;
      all += mean / (kEach * 5);
      squares += mean * mean / (kEach * 5);
    }
  }
  const double deviation = std::sqrt(squares - all * all);
  for (const double mean : means) EXPECT_LT(std::abs(mean - all), 0.5 * deviation);
}

TEST(DrawRetina, LesionsMakeEveryGradeDifferent) {
  for (std::int64_t grade = 1; grade < 5; ++grade)
    EXPECT_NE(draw_retina(grade, 48, Random({7})).pixels,
              draw_retina(grade - 1, 48, Random({7})).pixels);
}

TEST(LooksLikeRetina, AcceptsSyntheticRetinas) {
  for (std::uint64_t i = 0; i < 50; ++i)
    EXPECT_TRUE(looks_like_retina(draw_retina(static_cast<std::int64_t>(i % 5), 80, Random({i}))))
        << i;
}

TEST(LooksLikeRetina, AcceptsTruncatedDiscs) {
  const Image whole = draw_retina(2, 100, Random({3}));
  Image cut = Image::unset(100, 70);
  std::copy_n(whole.row(15), cut.pixels.size(), cut.pixels.begin());
  EXPECT_TRUE(looks_like_retina(cut));
}

TEST(LooksLikeRetina, RejectsOtherImages) {
  EXPECT_FALSE(looks_like_retina(picture(64, 48, 1)));
  EXPECT_FALSE(looks_like_retina(Image(64, 64)));
  Image blue = draw_retina(0, 64, Random({1})), square(64, 64);
  for (std::size_t at = 0; at < blue.pixels.size(); at += 3)
    std::swap(blue.pixels[at], blue.pixels[at + 2]);
  EXPECT_FALSE(looks_like_retina(blue));
  for (std::size_t at = 0; at < square.pixels.size(); at += 3) square.pixels[at] = 200;
  EXPECT_FALSE(looks_like_retina(square));
  EXPECT_FALSE(looks_like_retina(Image(1, 1)));
}

TEST(DrawRetina, HashIsSimilarAfterReencodingAndDifferentForOtherImages) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Image image = draw_retina(static_cast<std::int64_t>(i % 5), 200, Random({i}));
    const Image small = resize(image, 120, 120, Interpolation::kBicubic);
    const Thumbnail seen = thumbnail(image),
                    again = thumbnail(decode_image(encode_jpeg(small, 60))),
                    other = thumbnail(draw_retina(0, 200, Random({i + 100})));
    EXPECT_LE(distance(image_hash(seen), image_hash(again)), 20) << i;
    EXPECT_LT(mean_difference(seen, again), 1) << i;
    EXPECT_GT(mean_difference(seen, other), 2) << i;
  }
}

}  // namespace
}  // namespace stages
