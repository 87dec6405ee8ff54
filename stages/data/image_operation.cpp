#include "stages/data/image_operation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "stages/data/image_change.h"

namespace stages {
namespace {

using Table = std::array<std::uint8_t, 256>;

template <typename Value>
void map_values(Image& image, Value value) {
  Table table;
  for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = value(i);
  for (std::uint8_t& one : image.pixels) one = table[one];
}

/// Maps the values of each channel through a table that `make` derives from their histogram.
template <typename Make>
void map_channels(Image& image, Make make) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    std::array<std::int64_t, 256> histogram = {};
    for (std::size_t at = channel; at < image.pixels.size(); at += 3) ++histogram[image.pixels[at]];
    const Table table = make(histogram);
    for (std::size_t at = channel; at < image.pixels.size(); at += 3)
      image.pixels[at] = table[image.pixels[at]];
  }
}

Table identity() {
  Table table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i);
  return table;
}

void auto_contrast(Image& image) {
  map_channels(image, [](const std::array<std::int64_t, 256>& histogram) {
    Table table = identity();
    int low = 0, high = 255;
    while (low < 255 && histogram[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && histogram[static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) return table;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    for (int i = 0; i < 256; ++i)
      table[static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
    return table;
  });
}

void equalize(Image& image) {
  map_channels(image, [](const std::array<std::int64_t, 256>& histogram) {
    std::int64_t sum = 0, last = 0;
    for (const std::int64_t count : histogram) {
      sum += count;
      if (count > 0) last = count;
    }
    Table table = identity();
    const std::int64_t step = (sum - last) / 255;
    if (step == 0) return table;
    std::int64_t below = step / 2;
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
      below += histogram[i];
    }
    return table;
  });
}

void posterize(Image& image, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  map_values(image, [&](int value) { return static_cast<std::uint8_t>(value & mask); });
}

void solarize(Image& image, double threshold) {
  map_values(image, [&](int value) {
    return static_cast<std::uint8_t>(value < threshold ? value : 255 - value);
  });
}

/// Returns `image` after applying Pillow's SMOOTH filter; the pixels at the edges are unchanged.
Image smoothed(const Image& image) {
  constexpr float kEdge = 1.0F / 13, kCenter = 5.0F / 13;
  Image result = image;
  if (image.width < 3 || image.height < 3) return result;
  const int end = 3 * (image.width - 1);
  for (int y = 1; y < image.height - 1; ++y) {
    const std::uint8_t *const above = image.row(y - 1), *const here = image.row(y),
                              *const below = image.row(y + 1);
    std::uint8_t* const to = result.row(y);
    const auto three = [](const std::uint8_t* row, int x, float center) {
      return static_cast<float>(row[x - 3]) * kEdge + static_cast<float>(row[x]) * center +
             static_cast<float>(row[x + 3]) * kEdge;
    };
    for (int x = 3; x < end; ++x) {
      float sum = 0.5F;
      sum += three(below, x, kEdge);
      sum += three(here, x, kCenter);
      sum += three(above, x, kEdge);
      to[x] = static_cast<std::uint8_t>(std::clamp(sum, 0.0F, 255.0F));
    }
  }
  return result;
}

void change_sharpness(Image& image, double factor) {
  const Image smooth = smoothed(image);
  for (std::size_t at = 0; at < image.pixels.size(); ++at) {
    const int from = smooth.pixels[at], to = image.pixels[at];
    const float blended =
        static_cast<float>(from) + static_cast<float>(factor) * static_cast<float>(to - from);
    image.pixels[at] = static_cast<std::uint8_t>(std::clamp(blended, 0.0F, 255.0F));
  }
}

/// Blurs the pixels of one line with a window of 2 `radius` + 1, like Pillow's box blur: whole
/// pixels have weight `whole`, and the two at the window's ends have weight `part`, both in units
/// of 2^-24.
void blur_line(const std::uint8_t* from, std::uint8_t* to, int count, std::ptrdiff_t stride,
               float radius) {
  const int reach = static_cast<int>(radius);
  const auto whole = static_cast<std::uint32_t>(static_cast<float>(1U << 24) / (radius * 2 + 1));
  const std::uint32_t part = ((1U << 24) - static_cast<std::uint32_t>(reach * 2 + 1) * whole) / 2;
  const auto at = [&](int place) {
    return static_cast<std::uint32_t>(from[std::clamp(place, 0, count - 1) * stride]);
  };
  std::uint32_t sum = 0;
  for (int place = -reach; place <= reach; ++place) sum += at(place);
  for (int place = 0; place < count; ++place) {
    const std::uint32_t ends = at(place - reach - 1) + at(place + reach + 1);
    to[place * stride] = static_cast<std::uint8_t>((sum * whole + ends * part + (1U << 23)) >> 24);
    sum += at(place + reach + 1) - at(place - reach);
  }
}

/// Returns the radius of the box blur that approximates a Gaussian when applied three times:
/// Gwosdek, Grewenig, Bruhn and Weickert, "Theoretical foundations of Gaussian convolution by
/// extended box filtering", SSVM 2011.
float box_radius(float radius) {
  constexpr int kPasses = 3;
  const float variance = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto whole = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  part /= 6 * (variance - (whole + 1) * (whole + 1));
  return whole + part;
}

void gaussian_blur(Image& image, double radius) {
  if (radius <= 0) return;
  const float box = box_radius(static_cast<float>(radius));
  const std::ptrdiff_t row = std::ptrdiff_t{3} * image.width;
  Image other = image;
  const auto in_three_passes = [&](int lines, std::ptrdiff_t to_next_line, int count,
                                   std::ptrdiff_t stride) {
    for (int pass = 0; pass < 3; ++pass) {
      for (int line = 0; line < lines; ++line) {
        for (int channel = 0; channel < 3; ++channel) {
          const std::ptrdiff_t begin = line * to_next_line + channel;
          blur_line(image.pixels.data() + begin, other.pixels.data() + begin, count, stride, box);
        }
      }
      std::swap(image.pixels, other.pixels);
    }
  };
  in_three_passes(image.height, row, image.width, 3);
  in_three_passes(image.width, 3, image.height, row);
}

/// Like transformed(), but interpolates each pixel from the four around its source point.
Image moved_smoothly(const Image& image, const AffineMatrix& from) {
  Image result(image.width, image.height);
  for (int row = 0; row < image.height; ++row) {
    std::uint8_t* to = result.row(row);
    for (int column = 0; column < image.width; ++column, to += 3) {
      double x = from[0] * (column + 0.5) + from[1] * (row + 0.5) + from[2];
      double y = from[3] * (column + 0.5) + from[4] * (row + 0.5) + from[5];
      if (x < 0 || x >= image.width || y < 0 || y >= image.height) continue;
      x -= 0.5;
      y -= 0.5;
      const int left = static_cast<int>(std::floor(x)), top = static_cast<int>(std::floor(y));
      const double right_share = x - left, lower_share = y - top;
      const int first = 3 * std::clamp(left, 0, image.width - 1),
                second = 3 * std::clamp(left + 1, 0, image.width - 1);
      const std::uint8_t* const upper = image.row(std::clamp(top, 0, image.height - 1));
      const std::uint8_t* const lower = top + 1 < image.height ? image.row(top + 1) : nullptr;
      for (int channel = 0; channel < 3; ++channel) {
        const auto between = [&](const std::uint8_t* of) {
          const int a = of[first + channel], b = of[second + channel];
          return a + (b - a) * right_share;
        };
        const double above = between(upper), below = lower ? between(lower) : above;
        to[channel] = static_cast<std::uint8_t>(above + (below - above) * lower_share);
      }
    }
  }
  return result;
}

Image moved_by(const Image& image, const AffineMatrix& from, Neighbors neighbors) {
  return neighbors == Neighbors::kNearest ? transformed(image, from) : moved_smoothly(image, from);
}

/// Converts the angle to degrees and back, as torchvision does, to get the same rounding.
double tangent_in_degrees(double tangent) {
  const double degrees = std::atan(tangent) * (180 / std::numbers::pi);
  return degrees * (std::numbers::pi / 180);
}

Image translated(const Image& image, int right, int down, Neighbors neighbors) {
  const double x = image.width * 0.5, y = image.height * 0.5;
  return moved_by(image, {1, 0, (-x - right) + x, 0, 1, (-y - down) + y}, neighbors);
}

}  // namespace

Image applied(Image image, const OperationAt& step, Neighbors neighbors) {
  const double magnitude = step.magnitude;
  switch (step.operation) {
    case Operation::kIdentity:
      return image;
    case Operation::kShearX:
      return moved_by(image, {1, std::tan(tangent_in_degrees(magnitude)), 0, 0, 1, 0}, neighbors);
    case Operation::kShearY: {
      const double angle = tangent_in_degrees(magnitude);
      return moved_by(image, {1, 0, 0, std::sin(angle) / std::cos(angle), 1, 0}, neighbors);
    }
    case Operation::kTranslateX:
      return translated(image, static_cast<int>(magnitude), 0, neighbors);
    case Operation::kTranslateY:
      return translated(image, 0, static_cast<int>(magnitude), neighbors);
    case Operation::kRotate:
      return moved_by(image, rotation(image, magnitude), neighbors);
    case Operation::kBrightness:
      change_brightness(image, 1 + magnitude);
      return image;
    case Operation::kColor:
      change_saturation(image, 1 + magnitude);
      return image;
    case Operation::kContrast:
      change_contrast(image, 1 + magnitude);
      return image;
    case Operation::kSharpness:
      change_sharpness(image, 1 + magnitude);
      return image;
    case Operation::kPosterize:
      posterize(image, static_cast<int>(magnitude));
      return image;
    case Operation::kSolarize:
      solarize(image, magnitude);
      return image;
    case Operation::kAutoContrast:
      auto_contrast(image);
      return image;
    case Operation::kEqualize:
      equalize(image);
      return image;
    case Operation::kInvert:
      map_values(image, [](int value) { return static_cast<std::uint8_t>(255 - value); });
      return image;
    case Operation::kGrayscale:
      change_saturation(image, 0);
      return image;
    case Operation::kGaussianBlur:
      gaussian_blur(image, magnitude);
      return image;
  }
  return image;
}

}  // namespace stages
