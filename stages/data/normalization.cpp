#include "stages/data/normalization.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace stages {
namespace {

using SixteenBytes = std::uint8_t __attribute__((vector_size(16)));
// Two halves, each with four pixels and four unused bytes.
using EightPixels = std::uint8_t __attribute__((vector_size(32)));
using EightIntegers = std::int32_t __attribute__((vector_size(32)));
using EightFloats = float __attribute__((vector_size(32)));

#define RETORT_WITH_FMA __attribute__((target("avx2,fma"), always_inline)) inline

/// Returns a * b + c, rounded once.
RETORT_WITH_FMA EightFloats multiply_add(EightFloats a, float b, EightFloats c) {
  EightFloats result;
  for (int i = 0; i < 8; ++i) result[i] = __builtin_fmaf(a[i], b, c[i]);
  return result;
}

/// Returns value * (high + low). If high + low is nearly 1/x, this is the correctly rounded value /
/// x for almost every value.
RETORT_WITH_FMA EightFloats divided(EightFloats value, float high, float low) {
  return multiply_add(value, high, value * low);
}

template <int channel>
RETORT_WITH_FMA EightFloats channel_of(EightPixels pixels) {
  constexpr int c = channel, none = 32;  // `none` selects a byte of the second operand, which is 0
  const EightPixels bytes = __builtin_shufflevector(
      pixels, EightPixels{}, c, none, none, none, c + 3, none, none, none, c + 6, none, none, none,
      c + 9, none, none, none, c + 16, none, none, none, c + 19, none, none, none, c + 22, none,
      none, none, c + 25, none, none, none);
  return __builtin_convertvector(reinterpret_cast<EightIntegers>(bytes), EightFloats);
}

RETORT_WITH_FMA EightPixels eight_pixels(const std::uint8_t* pixel) {
  SixteenBytes left, right;
  std::memcpy(&left, pixel, sizeof left);
  std::memcpy(&right, pixel + 12, sizeof right);
  return __builtin_shufflevector(left, right, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

// Each step reads 28 bytes but uses only 24, so ten pixels must remain.
constexpr std::ptrdiff_t kAtOnce = 8, kRead = 10;

}  // namespace

Normalization::Normalization(const std::array<double, 3>& mean,
                             const std::array<double, 3>& standard_deviation) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto deviation = static_cast<float>(standard_deviation[channel]);
    Terms& terms = terms_[channel];
    terms.mean = static_cast<float>(mean[channel]);
    terms.high = 1 / deviation;
    terms.low =
        static_cast<float>(1 / static_cast<double>(deviation) - static_cast<double>(terms.high));
    for (std::size_t value = 0; value < 256; ++value) {
      const auto share = static_cast<float>(static_cast<double>(value) / 255);
      values_[channel][value] = (share - terms.mean) / deviation;
    }
  }
  // A lookup table needs one store per value. Computing the values is twice as fast, and is
  // preferred if it produces the same bits for all 256 inputs.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return;
  constexpr int kWidth = 256 + kRead;  // the last pixels of a row use the table
  Image every(kWidth, 1);
  for (std::size_t i = 0; i < every.pixels.size(); ++i)
    every.pixels[i] = static_cast<std::uint8_t>(i / 3);
  std::vector<float> computed(std::size_t{3} * kWidth);
  compute(every.row(0), kWidth, kWidth, computed.data());
  is_computed_ = true;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const auto& wanted = values_[channel];
    is_computed_ =
        is_computed_ && std::memcmp(&computed[channel * kWidth], wanted.data(), sizeof wanted) == 0;
  }
}

void Normalization::write(const Image& image, bool mirrored, float* result) const {
  const auto width = static_cast<std::ptrdiff_t>(image.width);
  const std::ptrdiff_t plane = width * image.height;
  for (int y = 0; y < image.height; ++y) {
    float* to = result + y * width;
    if (is_computed_) compute(image.row(y), width, plane, to);
    else look_up(image.row(y), width, plane, to);
    if (!mirrored) continue;
    for (float* row : {to, to + plane, to + 2 * plane}) std::reverse(row, row + width);
  }
}

void Normalization::look_up(const std::uint8_t* pixel, std::ptrdiff_t width, std::ptrdiff_t plane,
                            float* to) const {
  for (std::ptrdiff_t x = 0; x < width; ++x, pixel += 3, ++to) {
    to[0] = values_[0][pixel[0]];
    to[plane] = values_[1][pixel[1]];
    to[2 * plane] = values_[2][pixel[2]];
  }
}

__attribute__((target("avx2,fma"))) void Normalization::compute(const std::uint8_t* pixel,
                                                                std::ptrdiff_t width,
                                                                std::ptrdiff_t plane,
                                                                float* to) const {
  constexpr float kHigh = 1.0F / 255,
                  kLow = static_cast<float>(1.0 / 255 - static_cast<double>(kHigh));
  std::ptrdiff_t x = 0;
  for (; x + kRead <= width; x += kAtOnce) {
    const EightPixels pixels = eight_pixels(pixel + 3 * x);
    const std::array<EightFloats, 3> channels = {channel_of<0>(pixels), channel_of<1>(pixels),
                                                 channel_of<2>(pixels)};
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const Terms& terms = terms_[channel];
      const EightFloats result =
          divided(divided(channels[channel], kHigh, kLow) - terms.mean, terms.high, terms.low);
      std::memcpy(to + static_cast<std::ptrdiff_t>(channel) * plane + x, &result, sizeof result);
    }
  }
  look_up(pixel + 3 * x, width - x, plane, to + x);
}

#undef RETORT_WITH_FMA

}  // namespace stages
