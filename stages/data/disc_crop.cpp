#include "stages/data/disc_crop.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

namespace stages {
namespace {

/// A range of rows or columns.
struct BrightRange {
  int first = 0, count = 0;
};

/// Returns the range from the first to the last line in which enough of the `length` pixels are
/// bright.
std::optional<BrightRange> bright_range(const std::vector<std::int64_t>& bright, int length) {
  constexpr std::int64_t kPerCent = 100;
  std::optional<int> first;
  int last = 0;
  for (int line = 0; line < std::ssize(bright); ++line) {
    const std::int64_t count = bright[static_cast<std::size_t>(line)];
    if (count == 0 || kPerCent * count < length) continue;
    if (!first) first = line;
    last = line;
  }
  if (!first) return std::nullopt;
  return BrightRange{*first, last - *first + 1};
}

}  // namespace

Box disc_box(const Image& image, const CropToDisc& crop) {
  constexpr std::size_t kChannels = 3;
  const auto width = static_cast<std::size_t>(image.width),
             height = static_cast<std::size_t>(image.height);
  const double sum = static_cast<double>(
      std::accumulate(image.pixels.begin(), image.pixels.end(), std::int64_t{0}));
  const double least = crop.threshold * sum / static_cast<double>(width * height);
  std::vector<std::int64_t> rows(height), columns(width);
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t column = 0; column < width; ++column) {
      const std::uint8_t* const pixel = &image.pixels[kChannels * (row * width + column)];
      if (pixel[0] + pixel[1] + pixel[2] <= least) continue;
      ++rows[row];
      ++columns[column];
    }
  }
  const auto vertical = bright_range(rows, image.width),
             horizontal = bright_range(columns, image.height);
  if (!vertical || !horizontal) return {0, 0, image.width, image.height};
  return {horizontal->first, vertical->first, horizontal->count, vertical->count};
}

Image cropped_to_disc(Image image, const CropToDisc& crop) {
  const Box box = disc_box(image, crop);
  if (box == Box{0, 0, image.width, image.height}) return image;
  return cropped(image, box);
}

}  // namespace stages
