#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stages/data/image.h"

namespace stages {

/// Computes (value / 255 - mean) / standard deviation for each value of each channel, rounded to
/// float after each of the three operations.
class Normalization {
 public:
  Normalization(const std::array<double, 3>& mean, const std::array<double, 3>& standard_deviation);

  /// Writes the channels one after another, 3 x height x width values in total; if `mirrored` is
  /// set, writes each row from right to left.
  void write(const Image& image, bool mirrored, float* result) const;

 private:
  void look_up(const std::uint8_t* pixel, std::ptrdiff_t width, std::ptrdiff_t plane,
               float* to) const;
  void compute(const std::uint8_t* pixel, std::ptrdiff_t width, std::ptrdiff_t plane,
               float* to) const;

  /// The mean of a channel, and 1 / deviation as the sum of two values.
  struct Terms {
    float mean = 0, high = 0, low = 0;
  };

  std::array<std::array<float, 256>, 3> values_{};
  std::array<Terms, 3> terms_{};
  bool is_computed_ = false;  ///< compute() is faster and writes the same bits as look_up()
};

}  // namespace stages
