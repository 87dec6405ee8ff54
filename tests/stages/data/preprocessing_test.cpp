#include "stages/data/preprocessing.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <thread>
#include <type_traits>

#include <gtest/gtest.h>

#include "stages/data/image_list.h"
#include "tests/support/pictures.h"

namespace stages {
namespace {

// The function has no parameter for the class, the part or the file of an image.
template <typename Extra>
constexpr bool kTakes =
    std::is_invocable_v<decltype(preprocessed), Image, const Preprocessing&, Extra> ||
    std::is_invocable_v<decltype(preprocessed), Image, Extra>;
static_assert(!kTakes<std::int64_t> && !kTakes<Part> && !kTakes<ImageFile> && !kTakes<std::string>);
static_assert(kTakes<const Preprocessing&>);

/// Returns (3x + 5y + (xy mod 17)) mod 256, as specified for an image of 64 x 64.
std::uint8_t pattern(int x, int y) {
  return static_cast<std::uint8_t>((3 * x + 5 * y + x * y % 17) & 255);
}

Image pattern_of(bool is_gray) {
  Image image(64, 64);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      std::uint8_t* const pixel = image.row(y) + 3 * x;
      pixel[0] = pattern(x, y);
      pixel[1] = is_gray ? pixel[0] : pattern(x, (y + 57) % 64);
      pixel[2] = is_gray ? pixel[0] : pattern((x + 53) % 64, y);
    }
  }
  return image;
}

std::int64_t sum_of_pixels(const Image& image) {
  return std::accumulate(image.pixels.begin(), image.pixels.end(), std::int64_t{0});
}

std::array<int, 3> pixel_of(const Image& image, int x, int y) {
  const std::uint8_t* const pixel = image.row(y) + 3 * x;
  return {pixel[0], pixel[1], pixel[2]};
}

TEST(Preprocessing, ClaheMatchesRecordedColors) {
  const Image image = preprocessed(pattern_of(false), {.clahe = Clahe{.clip_limit = 2.5}});
  EXPECT_EQ(sum_of_pixels(image), 1'640'967);
  EXPECT_EQ(pixel_of(image, 0, 0), (std::array{0, 6, 131}));
  EXPECT_EQ(pixel_of(image, 31, 31), (std::array{0, 181, 178}));
}

TEST(Preprocessing, ClaheDistinguishesColumnsAndRows) {
  const Image wide = preprocessed(pattern_of(false), {.clahe = Clahe{.columns = 2, .rows = 8}}),
              high = preprocessed(pattern_of(false), {.clahe = Clahe{.columns = 8, .rows = 2}});
  EXPECT_NE(wide.pixels, high.pixels);
  // In the lower half, the same gray is among brighter ones. This makes no difference if the tiles
  // span the full height.
  Image steps(64, 64);
  for (int y = 0; y < 64; ++y)
    std::fill_n(steps.row(y), 3 * 64, static_cast<std::uint8_t>(100 + y % 8 * (y < 32 ? 3 : 12)));
  const Image columns = preprocessed(steps, {.clahe = Clahe{.columns = 8, .rows = 1}}),
              rows = preprocessed(steps, {.clahe = Clahe{.columns = 1, .rows = 8}});
  EXPECT_EQ(pixel_of(columns, 5, 4), pixel_of(columns, 5, 57));
  EXPECT_NE(pixel_of(rows, 5, 4), pixel_of(rows, 5, 57));
}

/// Follows the header's definition, pixel by pixel.
Image flattened_plainly(const Image& image, const FlattenSharpen& step) {
  const auto mirrored = [](int place, int size) {
    while (size > 1 && (place < 0 || place >= size))
      place = place < 0 ? -place : 2 * (size - 1) - place;
    return size == 1 ? 0 : place;
  };
  const auto byte = [](double value) { return static_cast<int>(std::clamp(value, 0.0, 255.0)); };
  const auto gray = [&](int x, int y) {
    const std::uint8_t* const p =
        image.row(mirrored(y, image.height)) + 3 * mirrored(x, image.width);
    return (p[0] * 9798 + p[1] * 19235 + p[2] * 3735 + (1 << 14)) >> 15;
  };
  Image flat(image.width, image.height), sharp(image.width, image.height);
  const int before = step.kernel_size / 2, area = step.kernel_size * step.kernel_size;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      int total = 0;
      for (int dy = 0; dy < step.kernel_size; ++dy)
        for (int dx = 0; dx < step.kernel_size; ++dx)
          total += gray(x - before + dx, y - before + dy);
      const int mean = (2 * total + area) / (2 * area);
      for (int c = 0; c < 3; ++c) {
        const int even = std::clamp(image.row(y)[3 * x + c] - mean + 128, 0, 255);
        flat.row(y)[3 * x + c] = static_cast<std::uint8_t>(
            byte(128 + step.contrast * (byte(even + step.brightness) - 128)));
      }
    }
  }
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const auto at = [&](int dx, int dy) {
          return flat.row(mirrored(y + dy, image.height))[3 * mirrored(x + dx, image.width) + c];
        };
        const double value = (1 + 4 * step.sharpen) * at(0, 0) -
                             step.sharpen * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1));
        sharp.row(y)[3 * x + c] =
            static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
      }
    }
  }
  return sharp;
}

TEST(Preprocessing, FlattenAndSharpenMatchTheReference) {
  const Image image = picture(23, 17, 3);
  for (const FlattenSharpen& step :
       {FlattenSharpen{},
        FlattenSharpen{.kernel_size = 5, .brightness = -13.5, .contrast = 0.7, .sharpen = 0},
        FlattenSharpen{.kernel_size = 4, .brightness = 0, .contrast = 1, .sharpen = 0.5}}) {
    const Image made = preprocessed(image, {.flatten_sharpen = step}),
                plain = flattened_plainly(image, step);
    EXPECT_EQ(made.pixels, plain.pixels) << step.kernel_size;
  }
}

TEST(Preprocessing, FlattensBeforeEqualizing) {
  const Image image = picture(40, 30, 5);
  const Preprocessing flatten{.flatten_sharpen = FlattenSharpen{}}, equalize{.clahe = Clahe{}},
      both{.flatten_sharpen = FlattenSharpen{}, .clahe = Clahe{}};
  EXPECT_EQ(preprocessed(image, both).pixels,
            preprocessed(preprocessed(image, flatten), equalize).pixels);
  EXPECT_NE(preprocessed(image, both).pixels,
            preprocessed(preprocessed(image, equalize), flatten).pixels);
}

TEST(Preprocessing, AcceptsImagesSmallerThanTilesAndKernels) {
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 2}, {65, 1}}) {
    const Image image = preprocessed(picture(width, height),
                                     {.flatten_sharpen = FlattenSharpen{.kernel_size = 1000},
                                      .clahe = Clahe{.columns = 64, .rows = 64}});
    EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(3 * width * height));
  }
}

TEST(Preprocessing, DefaultOptionsChangeNothing) {
  EXPECT_EQ(preprocessed(picture(9, 7), {}).pixels, picture(9, 7).pixels);
}

TEST(Preprocessing, GivesTheSameResultInManyThreads) {
  const Preprocessing steps{.flatten_sharpen = FlattenSharpen{}, .clahe = Clahe{}};
  const Image expected = preprocessed(picture(120, 90), steps);
  std::array<Image, 4> made;
  std::vector<std::thread> threads;
  for (Image& one : made) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) one = preprocessed(picture(120, 90), steps);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Image& one : made) EXPECT_EQ(one.pixels, expected.pixels);
}

}  // namespace
}  // namespace stages
