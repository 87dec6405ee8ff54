#include "stages/data/shapes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numbers>
#include <vector>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

using std::abs, std::cos, std::max, std::min, std::sin;
constexpr float kPi = std::numbers::pi_v<float>;

/// A point in the image. The origin is the center, the edges are at -1 and 1, and y points down.
struct Point {
  float x, y;
  float radius() const { return std::hypot(x, y); }
  float angle() const { return std::atan2(y, x); }
};

/// A shape consists of the points where its field exceeds a level. The level determines how much of
/// the image the shape covers.
struct Shape {
  std::string_view name;
  float (*field)(Point);
};

float wave(float cycles, float at) { return cos(kPi * cycles * at); }

constexpr std::array kShapes = {
    Shape{"stripes_horizontal", [](Point p) { return wave(3, p.y); }},
    Shape{"stripes_vertical", [](Point p) { return wave(3, p.x); }},
    Shape{"disc", [](Point p) { return -p.radius(); }},
    Shape{"frame", [](Point p) { return -abs(max(abs(p.x), abs(p.y)) - 0.75f); }},
    Shape{"checkerboard", [](Point p) { return sin(kPi * 1.5f * p.x) * sin(kPi * 1.5f * p.y); }},
    Shape{"cross", [](Point p) { return -min(abs(p.x), abs(p.y)); }},
    Shape{"saltire", [](Point p) { return -min(abs(p.x + p.y), abs(p.x - p.y)); }},
    Shape{"dots", [](Point p) { return wave(2, p.x + 0.5f) + wave(2, p.y + 0.5f); }},
    Shape{"stripes_rising", [](Point p) { return wave(2.1f, p.x + p.y); }},
    Shape{"stripes_falling", [](Point p) { return wave(2.1f, p.x - p.y); }},
    Shape{"rings", [](Point p) { return wave(3.5f, p.radius()); }},
    Shape{"half_upper", [](Point p) { return -p.y; }},
    Shape{"half_left", [](Point p) { return -p.x; }},
    Shape{"triangle", [](Point p) { return -max(p.y, 0.87f * abs(p.x) - 0.5f * p.y); }},
    Shape{"diamond", [](Point p) { return -abs(p.x) - abs(p.y); }},
    Shape{"rays", [](Point p) { return cos(6 * p.angle()); }},
    Shape{"star", [](Point p) { return -p.radius() * (1 + 0.45f * cos(5 * p.angle())); }},
    Shape{"bar_horizontal", [](Point p) { return -abs(p.y); }},
    Shape{"bar_vertical", [](Point p) { return -abs(p.x); }},
    Shape{"grid", [](Point p) { return max(wave(3, p.x), wave(3, p.y)); }},
    Shape{"spiral", [](Point p) { return cos(3 * kPi * p.radius() - 2 * p.angle()); }},
    Shape{"zigzag",
          [](Point p) { return wave(3, p.y + abs(std::fmod(abs(2 * p.x), 2.0f) - 1) * 0.5f); }},
    Shape{"waves", [](Point p) { return wave(3, p.x + 0.3f * sin(4 * p.y)); }},
    Shape{"crescent",
          [](Point p) {
            return min(1 - p.radius(), Point{p.x - 0.5f, p.y}.radius() - 0.1f);
          }},
};

constexpr auto kShapeNames = [] {
  std::array<std::string_view, kShapes.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kShapes[i].name;
  return names;
}();

// A pixel is the mean of kSamples x kSamples samples, which makes edges smooth.
constexpr int kSamples = 3;

struct Color {
  float red, green, blue;
};

Color random_color(Random& random) {
  const auto level = [&] { return static_cast<float>(random.uniform(0, 255)); };
  const float red = level(), green = level();
  return {red, green, level()};
}

float brightness(const Color& color) {
  return 0.299f * color.red + 0.587f * color.green + 0.114f * color.blue;
}

/// Returns the share of each pixel that the shape covers, 0 to 1.
std::vector<float> coverage(const Shape& shape, int size, Random& random) {
  const auto turn = static_cast<float>(random.uniform(-0.12, 0.12)),
             scale = static_cast<float>(random.uniform(0.9, 1.1));
  const Point shift{static_cast<float>(random.uniform(-0.12, 0.12)),
                    static_cast<float>(random.uniform(-0.12, 0.12))};
  const double share = random.uniform(0.3, 0.5);
  const int side = size * kSamples;
  const float across = scale * cos(turn), along = scale * sin(turn);
  const auto place = [&](int i) {
    return (2 * static_cast<float>(i) + 1) / static_cast<float>(side) - 1;
  };
  std::vector<float> field;
  field.reserve(static_cast<std::size_t>(side) * static_cast<std::size_t>(side));
  for (int row = 0; row < side; ++row) {
    for (int column = 0; column < side; ++column) {
      const Point at{place(column) - shift.x, place(row) - shift.y};
      field.push_back(shape.field({at.x * across + at.y * along, at.y * across - at.x * along}));
    }
  }
  std::vector<float> sorted = field;
  const auto level = sorted.begin() +
                     static_cast<std::ptrdiff_t>((1 - share) * static_cast<double>(sorted.size()));
  std::ranges::nth_element(sorted, level);

  std::vector<float> result(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  for (int row = 0; row < side; ++row) {
    for (int column = 0; column < side; ++column) {
      const bool inside = field[static_cast<std::size_t>(row * side + column)] > *level;
      if (inside)
        result[static_cast<std::size_t>(row / kSamples * size + column / kSamples)] +=
            1.0f / (kSamples * kSamples);
    }
  }
  return result;
}

}  // namespace

std::span<const std::string_view> shape_names() { return kShapeNames; }

Image draw_shape(std::size_t shape, int size, Random random) {
  const std::vector<float> covered = coverage(kShapes.at(shape), size, random);
  Color ground = random_color(random), ink = random_color(random);
  while (abs(brightness(ink) - brightness(ground)) < 70) {
    ground = random_color(random);
    ink = random_color(random);
  }
  if (brightness(ink) < brightness(ground)) std::swap(ink, ground);

  // Add lighting that falls off to one side, and grain.
  const auto light_x = static_cast<float>(random.uniform(-20, 20)),
             light_y = static_cast<float>(random.uniform(-20, 20));
  Image image(size, size);
  const auto level = [&](float value) {
    const double grain = 12 * (random.uniform() + random.uniform() - 1);
    return static_cast<std::uint8_t>(
        std::clamp(std::lround(value + static_cast<float>(grain)), 0L, 255L));
  };
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const float share = covered[static_cast<std::size_t>(y * size + x)];
      const float light = light_x * (static_cast<float>(x) / static_cast<float>(size) - 0.5f) +
                          light_y * (static_cast<float>(y) / static_cast<float>(size) - 0.5f);
      const auto mixed = [&](float below, float above) {
        return level(below + share * (above - below) + light);
      };
      std::uint8_t* pixel = image.row(y) + std::ptrdiff_t{3} * x;
      pixel[0] = mixed(ground.red, ink.red);
      pixel[1] = mixed(ground.green, ink.green);
      pixel[2] = mixed(ground.blue, ink.blue);
    }
  }
  return image;
}

using runner::ErrorCode;
using runner::StageError;

void check(const MadeImages& images, std::int64_t fewest) {
  const auto kinds = static_cast<std::int64_t>(shape_names().size());
  if (images.classes < 1 || images.classes > kinds) {
    throw StageError(ErrorCode::kNotAllowedValue,
                     "cannot make " + std::to_string(images.classes) + " classes")
        .at("/make/classes")
        .with_help("make at most " + std::to_string(kinds) + ", one for each kind of shape");
  }
  if (images.per_class < fewest || images.size < 8 || images.size > 4096) {
    throw StageError(ErrorCode::kNotAllowedValue,
                     "cannot make " + std::to_string(images.per_class) + " images of " +
                         std::to_string(images.size) + " pixels per class")
        .at("/make")
        .with_help("make at least " + (fewest == 1 ? "one" : std::to_string(fewest)) +
                   " per class, of 8 to 4096 pixels");
  }
}

void check_canceled(const MakeCallbacks& callbacks) {
  if (callbacks.canceled && callbacks.canceled()) throw runner::Canceled{};
}

std::string padded(std::int64_t number, int digits) {
  std::string text = std::to_string(number);
  return std::string(static_cast<std::size_t>(std::max(0, digits - static_cast<int>(text.size()))),
                     '0') +
         text;
}

namespace {

constexpr std::uint64_t kPlaces = 1;  // a random stream separate from the shape's

}  // namespace

BoxedImage draw_boxed_shape(std::size_t shape, int size, std::uint64_t seed, std::uint64_t index) {
  const int side = std::max(1, size * 5 / 8);
  Random random({seed, shape, index, kPlaces});
  BoxedImage picture{Image(size, size), {0, 0, side, side}};
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
