#include "stages/data/affine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace stages {
namespace {

constexpr int kNowhere = -1;
constexpr double kFixedLimit = 32768, kFixedOne = 65536;

double radians(double degrees) { return degrees * (std::numbers::pi / 180); }

/// The pixel that a place is in.
int pixel_at(double place, int size) { return place >= 0 && place < size ? static_cast<int>(place) : kNowhere; }

void copy_pixel(const std::uint8_t* from, std::uint8_t* to) { std::copy_n(from, 3, to); }

/// Rows and columns stay what they are. Places are added up, as Pillow does.
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

/// Places as whole numbers of 65536ths.
void fixed_into(const Image& image, const AffineMatrix& from, Image& result) {
  const auto fixed = [](double value) { return static_cast<std::int64_t>(std::floor(value * kFixedOne + 0.5)); };
  const std::int64_t across[2] = {fixed(from[0]), fixed(from[3])}, down[2] = {fixed(from[1]), fixed(from[4])};
  std::int64_t left[2] = {fixed(from[2] + from[0] * 0.5 + from[1] * 0.5),
                          fixed(from[5] + from[3] * 0.5 + from[4] * 0.5)};
  for (int row = 0; row < image.height; ++row) {
    std::int64_t x = left[0], y = left[1];
    std::uint8_t* to = result.row(row);
    for (int column = 0; column < image.width; ++column, to += 3) {
      const std::int64_t source_column = x >> 16, source_row = y >> 16;
      if (source_column >= 0 && source_column < image.width && source_row >= 0 && source_row < image.height)
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

/// Do all places of the picture fit into 16 bits before the point?
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

double rounded_to_15_places(double value) { return std::nearbyint(value * 1e15) / 1e15; }

}  // namespace

Image transformed(const Image& image, const AffineMatrix& from) {
  Image result(image.width, image.height);
  if (from[1] == 0 && from[3] == 0) scale_into(image, from, result);
  else if (fits_fixed(image, from)) fixed_into(image, from, result);
  else exact_into(image, from, result);
  return result;
}

Image rotated(const Image& image, double degrees) {
  const double angle = std::fmod(degrees, 360) < 0 ? std::fmod(degrees, 360) + 360 : std::fmod(degrees, 360);
  const double cosine = rounded_to_15_places(std::cos(-radians(angle))),
               sine = rounded_to_15_places(std::sin(-radians(angle)));
  const double x = image.width / 2.0, y = image.height / 2.0;
  return transformed(image, {cosine, sine, cosine * -x + sine * -y + x,  //
                             -sine, cosine, -sine * -x + cosine * -y + y});
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
    std::swap_ranges(image.row(top), image.row(top) + std::ptrdiff_t{3} * image.width, image.row(bottom));
}

void flip_columns(Image& image) {
  for (int row = 0; row < image.height; ++row) {
    std::uint8_t* const begin = image.row(row);
    for (int left = 0, right = image.width - 1; left < right; ++left, --right)
      std::swap_ranges(begin + 3 * left, begin + 3 * left + 3, begin + 3 * right);
  }
}

}  // namespace stages
