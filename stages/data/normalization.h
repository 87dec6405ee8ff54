#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stages/data/image.h"

namespace stages {

/// value / 255 less the mean, divided by the standard deviation, for each value of each channel,
/// rounded to float after each of the three.
class Normalization {
 public:
  Normalization(const std::array<double, 3>& mean, const std::array<double, 3>& standard_deviation);

  /// Writes the channels one after another, 3 x height x width numbers, from right to left when
  /// `mirrored`.
  void write(const Image& image, bool mirrored, float* result) const;

 private:
  void look_up(const std::uint8_t* pixel, std::ptrdiff_t width, std::ptrdiff_t plane,
               float* to) const;
  void compute(const std::uint8_t* pixel, std::ptrdiff_t width, std::ptrdiff_t plane,
               float* to) const;

  /// Of a channel: the mean, and 1 / deviation as the sum of two numbers.
  struct Terms {
    float mean = 0, high = 0, low = 0;
  };

  std::array<std::array<float, 256>, 3> values_{};
  std::array<Terms, 3> terms_{};
  bool is_computed_ = false;  ///< compute() gives what look_up() does
};

}  // namespace stages
