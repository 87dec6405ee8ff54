#include "stages/data/normalization.h"

#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "stages/random/random.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

using Three = std::array<double, 3>;
const Three kClipMean = {0.48145466, 0.4578275, 0.40821073},
            kClipStd = {0.26862954, 0.26130258, 0.27577711};

/// Returns the first bit pattern that differs from the definition, as text, or an empty string.
std::string first_other(const Image& image, const Three& mean, const Three& deviation,
                        bool mirrored) {
  const auto width = static_cast<std::size_t>(image.width),
             plane = width * static_cast<std::size_t>(image.height);
  std::vector<float> result(3 * plane, 12345.0F);
  Normalization(mean, deviation).write(image, mirrored, result.data());
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t at = 0; at < plane; ++at) {
      const std::size_t x = at % width, from = at - x + (mirrored ? width - 1 - x : x);
      const std::uint8_t value = image.pixels[3 * from + channel];
      const auto share = static_cast<float>(static_cast<double>(value) / 255);
      const float wanted =
          (share - static_cast<float>(mean[channel])) / static_cast<float>(deviation[channel]);
      const float got = result[channel * plane + at];
      if (std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(wanted)) continue;
      return std::to_string(int{value}) + " less " + std::to_string(mean[channel]) + " by " +
             std::to_string(deviation[channel]) + " became " + std::to_string(got) + ", not " +
             std::to_string(wanted);
    }
  }
  return "";
}

/// Covers every value of every channel, and row ends of every length.
Image every_value(int width) {
  Image image(width, 256);
  for (int y = 0; y < image.height; ++y)
    std::fill_n(image.row(y), 3 * width, static_cast<std::uint8_t>(y));
  return image;
}

TEST(Normalization, EveryValueMatchesTheDefinitionBitForBit) {
  for (const int width : {1, 7, 8, 9, 10, 11, 17, 18, 33}) {
    EXPECT_EQ(first_other(every_value(width), kClipMean, kClipStd, false), "") << width;
    EXPECT_EQ(first_other(every_value(width), {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, false),
              "")
        << width;
  }
}

TEST(Normalization, EveryAllowedMeanAndDeviationMatchesBitForBit) {
  Random random({5});
  const Image image = every_value(19);
  for (int i = 0; i < 300; ++i) {
    const double scale = i % 3 == 0 ? 1 : i % 3 == 1 ? 1000 : 1e-3;
    const Three mean = {random.uniform(-scale, scale), random.uniform(), random.uniform()};
    const Three deviation = {random.uniform(1e-6, scale), random.uniform(1e-6, 2e-6),
                             random.uniform(1e-6, 1)};
    ASSERT_EQ(first_other(image, mean, deviation, false), "");
  }
  EXPECT_EQ(first_other(image, {-1000, 1000, 0}, {1000, 1e-6, 1}, false), "");
}

TEST(Normalization, ChannelsDoNotMix) {
  EXPECT_EQ(first_other(picture(37, 5), kClipMean, kClipStd, false), "");
}

TEST(Normalization, MirroringReversesRows) {
  EXPECT_EQ(first_other(picture(6, 4), kClipMean, kClipStd, true), "");
  EXPECT_EQ(first_other(picture(37, 5), kClipMean, kClipStd, true), "");
}

}  // namespace
}  // namespace stages
