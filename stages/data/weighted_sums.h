#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stages/data/image.h"

namespace stages {

/// How a pixel is computed from its neighbours; the kernel is widened when an image is made
/// smaller, to avoid aliasing.
enum class Interpolation {
  kBilinear,  ///< a triangle, one pixel to each side
  kBicubic,  ///< Keys, "Cubic convolution interpolation for digital image processing", 1981, with a
             ///< = -0.5
};

/// The region `window` of `image`'s region `from` resized to `width` x `height`.
///
/// The same bytes as Pillow's Image.crop(from).resize((width, height)).crop(window), which fixes
/// the arithmetic: coefficients of 22 fractional bits, one pass along rows and one along columns,
/// rounded to 8 bits after each; a pass that would change nothing is left out. Rows come first,
/// except (since Pillow 13) if the height shrinks and loses more than twice as many pixels as the
/// width. Only the rows and columns that `window` needs are computed, so `width` and `height` may
/// be far larger than memory allows. `from` must lie in the image, `window` in the result, and
/// neither may be empty.
Image resize(const Image& image, const Box& from, std::int64_t width, std::int64_t height,
             const Box& window, Interpolation interpolation);

/// All of `image`, resized.
Image resize(const Image& image, int width, int height, Interpolation interpolation);

/// The fractional bits of a coefficient: of its 32 bits, 8 are left for the pixel and 2 for
/// overshoot.
inline constexpr int kCoefficientBits = 22;

/// A range of neighbours in a source: pixels of a row, or rows.
struct Span {
  int begin, end;
  int count() const { return end - begin; }
};

/// For each of several neighbouring result pixels, the source range it is computed from and the
/// weights.
struct Coefficients {
  std::vector<Span> spans;           ///< neither end ever decreases
  int most = 0;                      ///< the length of the longest span
  std::size_t stride = 0;            ///< at least `most`: distance from one span's values to the
                                     ///< next one's
  std::vector<std::int32_t> values;  ///< those after a span's end are 0

  const std::int32_t* of(std::size_t span) const { return &values[span * stride]; }
};

/// For a side of `from` pixels resized to `to`: the coefficients of the result's pixels `first` to
/// `first + count - 1`, as Pillow computes them.
Coefficients coefficients_of(Interpolation interpolation, int from, std::int64_t to,
                             std::int64_t first, int count);

/// Resizes rows of RGB pixels along their length; each sum is rounded to 8 bits. Processes many
/// rows at once, because their pixels have the same coefficients.
class SumsAlongRows {
 public:
  static constexpr int kRows = 16;
  using Sources = std::array<const std::uint8_t*, kRows>;
  using Results = std::array<std::uint8_t*, kRows>;

  explicit SumsAlongRows(Coefficients coefficients);

  /// The first pixel that is read of a row.
  int first() const { return coefficients_.spans.front().begin; }
  int count() const { return coefficients_.spans.back().end - first(); }

  /// Processes the first `rows` rows, from 1 to kRows. Each of `sources` points to pixel first(),
  /// each of `results` to the first pixel of the result.
  void operator()(Sources sources, Results results, int rows);

 private:
  /// The bytes at one position of each row, or their sums.
  using Bytes = std::uint8_t __attribute__((vector_size(kRows)));
  using Numbers = std::int32_t __attribute__((vector_size(4 * kRows)));

  Coefficients coefficients_;
  std::vector<Numbers> source_;
  std::vector<Bytes> result_;
};

/// Row `at` of the result when resizing across rows, whatever their contents: `rows` are the rows
/// of its span, `bytes` bytes each.
void add_rows(const Coefficients& coefficients, int at, const std::uint8_t* const* rows,
              std::size_t bytes, std::uint8_t* result);

}  // namespace stages
