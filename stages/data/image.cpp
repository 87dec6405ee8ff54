#include "stages/data/image.h"

#include <array>

namespace stages {

void check_size(std::int64_t width, std::int64_t height) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width <= 0 || height <= 0) throw ImageError(runner::ErrorCode::kCorruptImage, "it has " + size);
  if (width > kMaxSide || height > kMaxSide || width > kMaxPixels / height) {
    throw ImageError(runner::ErrorCode::kImageTooLarge, "it has " + size + ", more than 178 million");
  }
}

Image oriented(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool turned = orientation >= 5;
  Image result = Image::unset(turned ? image.height : image.width, turned ? image.width : image.height);
  // Pixel (x, y) of the result lies at start + x·right + y·down of the source.
  const std::ptrdiff_t column = 3;
  const std::ptrdiff_t row = column * image.width;
  const std::ptrdiff_t last_column = column * (image.width - 1);
  const std::ptrdiff_t last_row = row * (image.height - 1);
  struct Walk {
    std::ptrdiff_t start, right, down;
  };
  const std::array<Walk, 7> walks = {{
      {last_column, -column, row},              // 2: mirrored
      {last_row + last_column, -column, -row},  // 3: upside down
      {last_row, column, -row},                 // 4: mirrored, upside down
      {0, row, column},                         // 5: mirrored along the main diagonal
      {last_row, -row, column},                 // 6: to be turned clockwise
      {last_row + last_column, -row, -column},  // 7: mirrored along the other diagonal
      {last_column, row, -column},              // 8: to be turned anticlockwise
  }};
  const Walk walk = walks[static_cast<std::size_t>(orientation - 2)];
  for (int y = 0; y < result.height; ++y) {
    const std::uint8_t* from = image.pixels.data() + walk.start + walk.down * y;
    std::uint8_t* to = result.row(y);
    for (int x = 0; x < result.width; ++x, to += 3, from += walk.right) {
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
  return result;
}

}  // namespace stages
