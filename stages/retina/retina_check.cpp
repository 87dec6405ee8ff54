#include "stages/retina/retina_check.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace stages {
namespace {

constexpr int kLooks = 96;             // in each direction
constexpr int kDark = 3 * 16;          // red, green and blue together
constexpr double kFewestBright = 0.2;  // share of the picture
constexpr double kRedOverGreen = 1.1, kRedOverBlue = 1.3;
constexpr double kFewestInside = 0.6, kMostOutside = 0.4;  // bright shares of the disc, and of what is around it

}  // namespace

bool looks_like_retina(const Image& image) {
  std::array<std::array<bool, kLooks>, kLooks> is_bright{};
  std::array<std::int64_t, 3> sums{};
  int bright = 0, left = kLooks, right = -1, top = kLooks, bottom = -1;
  for (int row = 0; row < kLooks; ++row) {
    for (int column = 0; column < kLooks; ++column) {
      const int y = static_cast<int>((2LL * row + 1) * image.height / (2 * kLooks));
      const int x = static_cast<int>((2LL * column + 1) * image.width / (2 * kLooks));
      const std::uint8_t* const pixel = image.row(y) + std::ptrdiff_t{3} * x;
      if (pixel[0] + pixel[1] + pixel[2] < kDark) continue;
      is_bright[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = true;
      for (std::size_t channel = 0; channel < 3; ++channel) sums[channel] += pixel[channel];
      ++bright;
      left = std::min(left, column);
      right = std::max(right, column);
      top = std::min(top, row);
      bottom = std::max(bottom, row);
    }
  }
  if (bright < kFewestBright * kLooks * kLooks) return false;
  const auto [red, green, blue] = sums;
  if (static_cast<double>(red) < kRedOverGreen * static_cast<double>(green) ||
      static_cast<double>(red) < kRedOverBlue * static_cast<double>(blue))
    return false;

  // Of a disc that is cut off, the longer side shows the diameter. Places become pixels, which are square.
  const double across = static_cast<double>(image.width) / kLooks, down = static_cast<double>(image.height) / kLooks;
  const double radius = std::max((right - left + 1) * across, (bottom - top + 1) * down) / 2;
  const double middle_x = (left + right + 1) * across / 2, middle_y = (top + bottom + 1) * down / 2;
  int inside = 0, outside = 0, bright_inside = 0, bright_outside = 0;
  for (int row = 0; row < kLooks; ++row) {
    for (int column = 0; column < kLooks; ++column) {
      const double x = (column + 0.5) * across - middle_x, y = (row + 0.5) * down - middle_y;
      const bool is_inside = x * x + y * y < radius * radius;
      const bool shines = is_bright[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      (is_inside ? inside : outside) += 1;
      if (shines) (is_inside ? bright_inside : bright_outside) += 1;
    }
  }
  return bright_inside > kFewestInside * inside && outside > 0 && bright_outside < kMostOutside * outside;
}

const ImageSubject kRetina = {
    .name = "retina", .what = "a photograph of a retina", .looks_alike = looks_like_retina, .has_patients = true};

}  // namespace stages
