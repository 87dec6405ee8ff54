#include "stages/data/image_change.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace stages {
namespace {

void adjust(Image& image, Adjustment adjustment, const ImageChange& change) {
  switch (adjustment) {
    case Adjustment::kBrightness:
      if (change.brightness != 1) change_brightness(image, change.brightness);
      return;
    case Adjustment::kContrast:
      if (change.contrast != 1) change_contrast(image, change.contrast);
      return;
    case Adjustment::kSaturation:
      if (change.saturation != 1) change_saturation(image, change.saturation);
      return;
    case Adjustment::kHue:
      if (change.hue) change_hue(image, *change.hue);
      return;
  }
}

Image placed_anew(Image image, const ImageChange& change) {
  if (change.rotation != 0) image = rotated(image, change.rotation);
  const int right = static_cast<int>(std::nearbyint(change.right * image.width));
  const int down = static_cast<int>(std::nearbyint(change.down * image.height));
  if (right != 0 || down != 0 || change.shear != 0 || change.scale != 1)
    image = moved(image, right, down, change.shear, change.scale);
  return image;
}

}  // namespace

bool changes_pixels(const AugmentOptions& augment) {
  return augment != AugmentOptions{.random_resized_crop = augment.random_resized_crop,
                                   .horizontal_flip = augment.horizontal_flip,
                                   .last = augment.last};
}

ImageChange drawn_change(const AugmentOptions& augment, bool is_mirrored, Random& random) {
  const auto around = [&](double middle, double most) {
    return middle + random.uniform(-most, most);
  };
  ImageChange change{.is_mirrored = is_mirrored};
  change.is_upside_down = random.uniform() < augment.vertical_flip;
  for (std::size_t i = change.order.size() - 1; i > 0; --i) {
    const auto other = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1));
    std::swap(change.order[i], change.order[other]);
  }
  change.brightness = around(1, augment.brightness);
  change.contrast = around(1, augment.contrast);
  change.saturation = around(1, augment.saturation);
  const double hue = around(0, augment.hue);
  if (augment.hue > 0) change.hue = hue;
  change.rotation = around(0, augment.rotation);
  change.right = around(0, augment.translation);
  change.down = around(0, augment.translation);
  change.shear = around(0, augment.shear);
  change.scale = around(1, augment.zoom);
  return change;
}

Image changed(Image image, const ImageChange& change) {
  if (change.steps == ChangeOrder::kPlacesFirst) image = placed_anew(std::move(image), change);
  if (change.is_mirrored) flip_columns(image);
  if (change.is_upside_down) flip_rows(image);
  for (const Adjustment adjustment : change.order) adjust(image, adjustment, change);
  if (change.steps == ChangeOrder::kColorsFirst) image = placed_anew(std::move(image), change);
  return image;
}

namespace {

/// ITU-R 601-2 luma, with weights in 65536ths.
std::uint8_t gray_of(const std::uint8_t* pixel) {
  return static_cast<std::uint8_t>(
      (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

/// Interpolates from `without` (factor 0) to `value` (factor 1), or extrapolates beyond them, in
/// float as Pillow does.
std::uint8_t blended(std::uint8_t without, std::uint8_t value, float factor) {
  const float result = static_cast<float>(without) + factor * static_cast<float>(value - without);
  return static_cast<std::uint8_t>(std::clamp(result, 0.0f, 255.0f));
}

void blend_with(Image& image, std::uint8_t without, double factor) {
  std::array<std::uint8_t, 256> table;
  for (std::size_t value = 0; value < table.size(); ++value)
    table[value] = blended(without, static_cast<std::uint8_t>(value), static_cast<float>(factor));
  for (std::uint8_t& value : image.pixels) value = table[value];
}

struct Hsv {
  std::uint8_t hue = 0, saturation = 0, value = 0;
};

std::uint8_t in_255ths(double share) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(share * 255), 0, 255));
}

Hsv hsv_of(const std::uint8_t* pixel) {
  const auto [least, most] = std::minmax({pixel[0], pixel[1], pixel[2]});
  if (least == most) return {0, 0, most};
  const float range = static_cast<float>(most - least);
  const float red = static_cast<float>(most - pixel[0]) / range,
              green = static_cast<float>(most - pixel[1]) / range,
              blue = static_cast<float>(most - pixel[2]) / range;
  float sixths = 0;
  if (pixel[0] == most) sixths = blue - green;
  else if (pixel[1] == most) sixths = static_cast<float>(2.0 + red - blue);
  else sixths = static_cast<float>(4.0 + green - red);
  const double turned = sixths / 6.0 + 1.0;
  const auto turns = static_cast<float>(turned < 1 ? turned : turned - 1);
  return {in_255ths(turns), in_255ths(range / static_cast<float>(most)), most};
}

void write_rgb(const Hsv& color, std::uint8_t* pixel) {
  const std::uint8_t most = color.value;
  // Rounds like std::round(), but without a function call.
  const auto share = [&](double of_it) {
    return static_cast<std::uint8_t>(static_cast<double>(static_cast<float>(most * of_it)) + 0.5);
  };
  const double sixths = color.hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto beyond = static_cast<float>(sixths - sector);
  const auto saturation = static_cast<float>(color.saturation / 255.0);
  const std::uint8_t least = share(1.0 - saturation), falling = share(1.0 - saturation * beyond),
                     rising = share(1.0 - saturation * (1.0 - beyond));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors = {{{most, rising, least},
                                                               {falling, most, least},
                                                               {least, most, rising},
                                                               {least, falling, most},
                                                               {rising, least, most},
                                                               {most, least, falling}}};
  std::ranges::copy(sectors[static_cast<std::size_t>(sector % 6)], pixel);
}

}  // namespace

void change_brightness(Image& image, double factor) { blend_with(image, 0, factor); }

void change_contrast(Image& image, double factor) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < image.pixels.size(); at += 3) sum += gray_of(&image.pixels[at]);
  const double mean = static_cast<double>(sum) / static_cast<double>(image.pixels.size() / 3);
  blend_with(image, static_cast<std::uint8_t>(mean + 0.5), factor);
}

void change_saturation(Image& image, double factor) {
  for (std::size_t at = 0; at < image.pixels.size(); at += 3) {
    std::uint8_t* const pixel = &image.pixels[at];
    const std::uint8_t gray = gray_of(pixel);
    for (int channel = 0; channel < 3; ++channel)
      pixel[channel] = blended(gray, pixel[channel], static_cast<float>(factor));
  }
}

void change_hue(Image& image, double turns) {
  const auto step = static_cast<std::uint8_t>(static_cast<int>(turns * 255));
  for (std::size_t at = 0; at < image.pixels.size(); at += 3) {
    Hsv color = hsv_of(&image.pixels[at]);
    color.hue = static_cast<std::uint8_t>(color.hue + step);
    write_rgb(color, &image.pixels[at]);
  }
}

namespace {

constexpr int kNowhere = -1;
constexpr double kFixedLimit = 32768, kFixedOne = 65536;

double radians(double degrees) { return degrees * (std::numbers::pi / 180); }

/// Returns the index of the pixel that contains a coordinate.
int pixel_at(double place, int size) {
  return place >= 0 && place < size ? static_cast<int>(place) : kNowhere;
}

void copy_pixel(const std::uint8_t* from, std::uint8_t* to) { std::copy_n(from, 3, to); }

/// Handles transforms that map rows to rows and columns to columns. Accumulates coordinates, as
/// Pillow does.
void scale_into(const Image& image, const AffineMatrix& from, Image& result) {
  std::vector<int> columns(static_cast<std::size_t>(image.width));
  double x = from[2] + from[0] * 0.5;
  for (int& column : columns) {
    column = pixel_at(x, image.width);
    x += from[0];
  }
  double y = from[5] + from[4] * 0.5;
  for (int row = 0; row < image.height; ++row, y += from[4]) {
    const int source = pixel_at(y, image.height);
    if (source == kNowhere) continue;
    for (std::size_t column = 0; column < columns.size(); ++column) {
      if (columns[column] != kNowhere)
        copy_pixel(image.row(source) + 3 * columns[column], result.row(row) + 3 * column);
    }
  }
}

/// Handles other transforms, with fixed-point coordinates in 65536ths.
void fixed_into(const Image& image, const AffineMatrix& from, Image& result) {
  const auto fixed = [](double value) {
    return static_cast<std::int64_t>(std::floor(value * kFixedOne + 0.5));
  };
  const std::int64_t across[2] = {fixed(from[0]), fixed(from[3])},
                     down[2] = {fixed(from[1]), fixed(from[4])};
  std::int64_t left[2] = {fixed(from[2] + from[0] * 0.5 + from[1] * 0.5),
                          fixed(from[5] + from[3] * 0.5 + from[4] * 0.5)};
  for (int row = 0; row < image.height; ++row) {
    std::int64_t x = left[0], y = left[1];
    std::uint8_t* to = result.row(row);
    for (int column = 0; column < image.width; ++column, to += 3) {
      const std::int64_t source_column = x >> 16, source_row = y >> 16;
      if (source_column >= 0 && source_column < image.width && source_row >= 0 &&
          source_row < image.height)
        copy_pixel(image.row(static_cast<int>(source_row)) + 3 * source_column, to);
      x += across[0];
      y += across[1];
    }
    left[0] += down[0];
    left[1] += down[1];
  }
}

void exact_into(const Image& image, const AffineMatrix& from, Image& result) {
  for (int row = 0; row < image.height; ++row) {
    const double y = row + 0.5;
    for (int column = 0; column < image.width; ++column) {
      const double x = column + 0.5;
      const int source_column = pixel_at(from[0] * x + from[1] * y + from[2], image.width);
      const int source_row = pixel_at(from[3] * x + from[4] * y + from[5], image.height);
      if (source_column != kNowhere && source_row != kNowhere)
        copy_pixel(image.row(source_row) + 3 * source_column, result.row(row) + 3 * column);
    }
  }
}

/// True if the integer parts of all the image's coordinates fit into 16 bits.
bool fits_fixed(const Image& image, const AffineMatrix& from) {
  for (const double x : {0, image.width}) {
    for (const double y : {0, image.height}) {
      if (std::abs(from[0] * x + from[1] * y + from[2]) >= kFixedLimit ||
          std::abs(from[3] * x + from[4] * y + from[5]) >= kFixedLimit)
        return false;
    }
  }
  return true;
}

/// Rounds to 15 decimal places through decimal text, as Python's round() does. Multiplying by 1e15
/// would itself round.
double rounded_to_15_places(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed, 15).ptr;
  double rounded = 0;
  std::from_chars(text.begin(), end, rounded);
  return rounded;
}

}  // namespace

Image transformed(const Image& image, const AffineMatrix& from) {
  Image result(image.width, image.height);
  if (from[1] == 0 && from[3] == 0) scale_into(image, from, result);
  else if (fits_fixed(image, from)) fixed_into(image, from, result);
  else exact_into(image, from, result);
  return result;
}

AffineMatrix rotation(const Image& image, double degrees) {
  const double angle =
      std::fmod(degrees, 360) < 0 ? std::fmod(degrees, 360) + 360 : std::fmod(degrees, 360);
  const double cosine = rounded_to_15_places(std::cos(-radians(angle))),
               sine = rounded_to_15_places(std::sin(-radians(angle)));
  const double x = image.width / 2.0, y = image.height / 2.0;
  return {cosine, sine,   cosine * -x + sine * -y + x,  //
          -sine,  cosine, -sine * -x + cosine * -y + y};
}

Image rotated(const Image& image, double degrees) {
  return transformed(image, rotation(image, degrees));
}

Image moved(const Image& image, int right, int down, double shear_degrees, double scale) {
  const double x = image.width * 0.5, y = image.height * 0.5;
  AffineMatrix from = {1 / scale, std::tan(radians(shear_degrees)) / scale, 0, 0, 1 / scale, 0};
  from[2] = from[0] * (-x - right) + from[1] * (-y - down) + x;
  from[5] = from[3] * (-x - right) + from[4] * (-y - down) + y;
  return transformed(image, from);
}

void flip_rows(Image& image) {
  for (int top = 0, bottom = image.height - 1; top < bottom; ++top, --bottom)
    std::swap_ranges(image.row(top), image.row(top) + std::ptrdiff_t{3} * image.width,
                     image.row(bottom));
}

void flip_columns(Image& image) {
  for (int row = 0; row < image.height; ++row) {
    std::uint8_t* const begin = image.row(row);
    for (int left = 0, right = image.width - 1; left < right; ++left, --right)
      std::swap_ranges(begin + 3 * left, begin + 3 * left + 3, begin + 3 * right);
  }
}

}  // namespace stages
