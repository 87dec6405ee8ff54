#include "stages/data/boxed_shape.h"

#include <algorithm>
#include <cctype>

#include "stages/data/shapes.h"

namespace stages {
namespace {

constexpr std::uint64_t kPlaces = 1;  // beside the shape's own random numbers

}  // namespace

BoxedPicture draw_boxed_shape(std::size_t shape, int size, std::uint64_t seed,
                              std::uint64_t index) {
  const int side = std::max(1, size * 5 / 8);
  Random random({seed, shape, index, kPlaces});
  BoxedPicture picture{Image(size, size), {0, 0, side, side}};
  picture.box.left = static_cast<int>(random.below(size - side + 1));
  picture.box.top = static_cast<int>(random.below(size - side + 1));
  const std::int64_t ground[3] = {random.below(200), random.below(200), random.below(200)};
  for (std::size_t i = 0; i < picture.image.pixels.size(); ++i)
    picture.image.pixels[i] = static_cast<std::uint8_t>(ground[i % 3] + random.below(24));
  const Image drawn = draw_shape(shape, side, Random({seed, shape, index}));
  for (int y = 0; y < side; ++y)
    std::copy_n(drawn.row(y), 3 * side,
                picture.image.row(picture.box.top + y) + 3 * picture.box.left);
  return picture;
}

std::string capitalized(std::string_view word) {
  std::string result(word);
  result.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(result.front())));
  return result;
}

}  // namespace stages
