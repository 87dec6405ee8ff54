#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stages/data/image.h"

namespace stages {

/// The kernel that computes a pixel from its neighbors. It is widened when an image is shrunk, to
/// avoid aliasing.
enum class Interpolation {
  kBilinear,  ///< a triangle that extends one pixel to each side
  /// Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -0.5.
  kBicubic,
};

/// Resizes the region `from` of `image` to `width` x `height`, and returns only `window` from the
/// result.
///
/// Produces the same bytes as Pillow's Image.crop(from).resize((width, height)).crop(window). This
/// determines the arithmetic: coefficients with 22 fractional bits, one pass along rows and one
/// along columns, each rounded to 8 bits; a pass that would change nothing is skipped. Rows come
/// first, except (since Pillow 13) if the height shrinks and loses more than twice as many pixels
/// as the width. Only the rows and columns that `window` needs are computed, so `width` and
/// `height` may be far larger than memory allows. `from` must be within the image and `window`
/// within the result, and neither may be empty.
Image resize(const Image& image, const Box& from, std::int64_t width, std::int64_t height,
             const Box& window, Interpolation interpolation);

/// Returns the whole `image`, resized.
Image resize(const Image& image, int width, int height, Interpolation interpolation);

/// The number of fractional bits in a coefficient. This leaves 8 of its 32 bits for the pixel and 2
/// for overshoot.
inline constexpr int kCoefficientBits = 22;

/// A range of source neighbors: pixels of a row, or whole rows.
struct Span {
  int begin, end;
  int count() const { return end - begin; }
};

/// The source range and the weights for each of several neighboring result pixels.
struct Coefficients {
  std::vector<Span> spans;  ///< `begin` and `end` never decrease from one span to the next
  int most = 0;             ///< length of the longest span
  /// Distance from one span's values to the next span's; at least `most`.
  std::size_t stride = 0;
  std::vector<std::int32_t> values;  ///< values after a span's end are 0

  const std::int32_t* of(std::size_t span) const { return &values[span * stride]; }
};

/// Returns the coefficients of the result pixels `first` to `first + count - 1` for a side of
/// `from` pixels resized to `to`, as Pillow computes them.
Coefficients coefficients_of(Interpolation interpolation, int from, std::int64_t to,
                             std::int64_t first, int count);

/// Resizes rows of RGB pixels along their length; each sum is rounded to 8 bits. Processes several
/// rows at once, since the coefficients are the same for all rows.
class SumsAlongRows {
 public:
  static constexpr int kRows = 16;
  using Sources = std::array<const std::uint8_t*, kRows>;
  using Results = std::array<std::uint8_t*, kRows>;

  explicit SumsAlongRows(Coefficients coefficients);

  /// The first source pixel read from a row.
  int first() const { return coefficients_.spans.front().begin; }
  int count() const { return coefficients_.spans.back().end - first(); }

  /// Processes `rows` rows, 1 to kRows. Each of `sources` points to pixel first() of a row, each of
  /// `results` to the first pixel of its result.
  void operator()(Sources sources, Results results, int rows);

 private:
  /// The bytes at one position of each row, or their sums.
  using Bytes = std::uint8_t __attribute__((vector_size(kRows)));
  using Numbers = std::int32_t __attribute__((vector_size(4 * kRows)));

  Coefficients coefficients_;
  std::vector<Numbers> source_;
  std::vector<Bytes> result_;
};

/// Computes row `at` of the result when resizing along columns, regardless of what the rows
/// contain. `rows` are the source rows of its span, `bytes` bytes each.
void add_rows(const Coefficients& coefficients, int at, const std::uint8_t* const* rows,
              std::size_t bytes, std::uint8_t* result);

}  // namespace stages
