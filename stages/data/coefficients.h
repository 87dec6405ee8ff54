#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stages/data/resize.h"

namespace stages {

/// How many fractional bits a coefficient has: of its 32, 8 are left for the pixel and 2 for overshoot.
inline constexpr int kCoefficientBits = 22;

/// Some neighbours of a source: pixels of a row, or rows.
struct Span {
  int begin, end;
  int count() const { return end - begin; }
};

/// Of which of a source each of some neighbours of a result is made, and how much of each.
struct Coefficients {
  std::vector<Span> spans;           ///< neither end ever moves back
  int most = 0;                      ///< no span has more
  std::size_t stride = 0;            ///< at least `most`: from one span's values to the next one's
  std::vector<std::int32_t> values;  ///< those after a span's end are 0

  const std::int32_t* of(std::size_t span) const { return &values[span * stride]; }
};

/// Along a side of `from` pixels that becomes one of `to`: those of pixels `first` to `first + count - 1` of the
/// result, as Pillow has them.
Coefficients coefficients_of(Interpolation interpolation, int from, std::int64_t to, std::int64_t first, int count);

}  // namespace stages
