#include "stages/data/weighted_sums.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

namespace stages {
namespace {

/// The pass along rows, which resizes each row of the source region to the columns of `window`.
class AlongRows {
 public:
  AlongRows(int from, std::int64_t to, const Box& window, Interpolation interpolation)
      : first_(window.left), count_(window.width) {
    if (to == from) return;
    sums_.emplace(coefficients_of(interpolation, from, to, window.left, window.width));
    first_ = sums_->first();
    count_ = sums_->count();
  }

  /// The first source pixel that is read from a row.
  int first() const { return first_; }
  std::size_t bytes() const { return std::size_t{3} * static_cast<std::size_t>(count_); }

  /// Resizes any number of rows: `source(i)` points to pixel first() of row i, and `result(i)` to
  /// its destination.
  void make(int count, const auto& source, const auto& result) {
    SumsAlongRows::Sources sources;
    SumsAlongRows::Results results;
    for (int done = 0; done < count; done += SumsAlongRows::kRows) {
      const int rows = std::min(count - done, SumsAlongRows::kRows);
      for (int i = 0; i < rows; ++i) {
        sources[static_cast<std::size_t>(i)] = source(done + i);
        results[static_cast<std::size_t>(i)] = result(done + i);
        if (!sums_) std::memcpy(result(done + i), source(done + i), bytes());
      }
      if (sums_) (*sums_)(sources, results, rows);
    }
  }

 private:
  int first_, count_;
  std::optional<SumsAlongRows> sums_;  // nullopt: the pass is skipped
};

/// Computes row `y` of the result as a weighted sum of source rows; `place(i)` is the address of
/// row i.
void add_rows_at(const Coefficients& sums, int y, std::vector<const std::uint8_t*>& rows,
                 const auto& place, std::size_t bytes, std::uint8_t* result) {
  rows.clear();
  const Span span = sums.spans[static_cast<std::size_t>(y)];
  for (int i = span.begin; i < span.end; ++i) rows.push_back(place(i));
  add_rows(sums, y, rows.data(), bytes, result);
}

}  // namespace

Image resize(const Image& image, const Box& from, std::int64_t width, std::int64_t height,
             const Box& window, Interpolation interpolation) {
  assert(from.left >= 0 && from.top >= 0 && from.left + from.width <= image.width &&
         from.top + from.height <= image.height);
  assert(window.width > 0 && window.height > 0 && window.left + window.width <= width &&
         window.top + window.height <= height);
  AlongRows along_rows(from.width, width, window, interpolation);
  const auto source_row = [&](int y) {
    return image.row(from.top + y) + std::ptrdiff_t{3} * (from.left + along_rows.first());
  };
  Image result = Image::unset(window.width, window.height);
  if (height == from.height) {
    along_rows.make(
        window.height, [&](int y) { return source_row(window.top + y); },
        [&](int y) { return result.row(y); });
    return result;
  }

  const Coefficients sums =
      coefficients_of(interpolation, from.height, height, window.top, window.height);
  std::vector<const std::uint8_t*> rows;
  const std::int64_t shorter = from.height - height, narrower = from.width - width;
  if (shorter > 0 && shorter > 2 * narrower) {
    Image held = Image::unset(static_cast<int>(along_rows.bytes() / 3), SumsAlongRows::kRows);
    for (int y = 0; y < window.height; y += SumsAlongRows::kRows) {
      const int count = std::min(SumsAlongRows::kRows, window.height - y);
      for (int i = 0; i < count; ++i)
        add_rows_at(sums, y + i, rows, source_row, along_rows.bytes(), held.row(i));
      along_rows.make(
          count, [&](int i) { return held.row(i); }, [&](int i) { return result.row(y + i); });
    }
    return result;
  }
  // A ring buffer of resized rows, large enough for the rows that one result row needs and for the
  // rows resized together with the last of them. Row y is at y modulo the number of rows.
  const int most = sums.most + SumsAlongRows::kRows, last = sums.spans.back().end;
  Image held = Image::unset(window.width, most);
  const auto place = [&](int y) { return held.row(y % most); };
  int next = sums.spans.front().begin;
  for (int y = 0; y < window.height; ++y) {
    next = std::max(next, sums.spans[static_cast<std::size_t>(y)].begin);
    while (next < sums.spans[static_cast<std::size_t>(y)].end) {
      const int count = std::min(SumsAlongRows::kRows, last - next);
      along_rows.make(
          count, [&](int i) { return source_row(next + i); },
          [&](int i) { return place(next + i); });
      next += count;
    }
    add_rows_at(sums, y, rows, place, std::size_t{3} * static_cast<std::size_t>(window.width),
                result.row(y));
  }
  return result;
}

Image resize(const Image& image, int width, int height, Interpolation interpolation) {
  return resize(image, {0, 0, image.width, image.height}, width, height, {0, 0, width, height},
                interpolation);
}

namespace {

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  const double near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1,
               far = (((x - 5) * x + 8) * x - 4) * a;
  return x < 1.0 ? near : x < 2.0 ? far : 0.0;
}

double support_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      return 1.0;
    case Interpolation::kBicubic:
      return 2.0;
  }
  return 0.0;
}

// Also compiles a function for processors that can process four values at once. AVX2 does not
// include fused multiply-add, which rounds once and would change the bits.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))

/// Replaces each distance with the weight of a pixel at that distance.
RETORT_FOR_EACH_PROCESSOR void weigh(Interpolation interpolation, double* distances,
                                     std::size_t count) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      for (std::size_t i = 0; i < count; ++i) distances[i] = triangle(distances[i]);
      return;
    case Interpolation::kBicubic:
      for (std::size_t i = 0; i < count; ++i) distances[i] = cubic(distances[i]);
      return;
  }
}

/// Computes the coefficients of each group of `stride` weights by dividing the weights by their
/// sum.
RETORT_FOR_EACH_PROCESSOR void share(const double* weights, std::size_t stride,
                                     Coefficients& result) {
  std::int32_t* values = result.values.data();
  for (const Span span : result.spans) {
    double sum = 0.0;
    for (int i = 0; i < span.count(); ++i) sum += weights[i];
    if (sum == 0.0) sum = 1.0;
    for (std::size_t i = 0; i < stride; ++i) {
      const double scaled = weights[i] / sum * (1 << kCoefficientBits);
      values[i] = static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
    }
    for (auto i = static_cast<std::size_t>(span.count()); i < stride; ++i) values[i] = 0;
    weights += stride;
    values += stride;
  }
}

#undef RETORT_FOR_EACH_PROCESSOR

}  // namespace

Coefficients coefficients_of(Interpolation interpolation, int from, std::int64_t to,
                             std::int64_t first, int count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double spread = std::max(scale, 1.0), shrink = 1.0 / spread;
  const double support = support_of(interpolation) * spread;
  const auto center_of = [&](std::size_t i) {
    return (static_cast<double>(first + static_cast<std::int64_t>(i)) + 0.5) * scale;
  };
  Coefficients result;
  result.spans.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double center = center_of(i);
    result.spans.push_back({std::max(static_cast<int>(center - support + 0.5), 0),
                            std::min(static_cast<int>(center + support + 0.5), from)});
    result.most = std::max(result.most, result.spans.back().count());
  }

  // The number of doubles in a register. Values after a span's end are computed but not used.
  constexpr std::size_t kLanes = 4;
  result.stride = (static_cast<std::size_t>(result.most) + kLanes - 1) / kLanes * kLanes;
  result.values.resize(result.stride * result.spans.size());
  std::vector<double> weights(result.values.size());
  for (std::size_t i = 0; i < result.spans.size(); ++i) {
    const double begin = result.spans[i].begin, center = center_of(i);
    for (std::size_t j = 0; j < result.stride; ++j) {
      weights[i * result.stride + j] = (static_cast<double>(j) + begin - center + 0.5) * shrink;
    }
  }
  weigh(interpolation, weights.data(), weights.size());
  share(weights.data(), result.stride, result);
  return result;
}

namespace {

// Compiles a function for several processor types; the loader picks the best version. Integer
// results are the same in all versions.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "sse4.1", "default")))
#define RETORT_IN_EACH __attribute__((always_inline)) inline

constexpr int kRows = SumsAlongRows::kRows, kTurned = 8;
constexpr std::int32_t kHalfOfOne = 1 << (kCoefficientBits - 1);

using EightBytes = std::uint8_t __attribute__((vector_size(8)));
using SixteenBytes = std::uint8_t __attribute__((vector_size(16)));
using EightNumbers = std::int32_t __attribute__((vector_size(32)));
using SixteenShorts = std::int16_t __attribute__((vector_size(32)));
using SixteenNumbers = std::int32_t __attribute__((vector_size(64)));
static_assert(kRows == 16);

/// Transposes eight bytes from each of eight rows; each of the four results gets two columns.
RETORT_IN_EACH void turn(const std::uint8_t* const* rows, std::size_t at, SixteenBytes* columns) {
  SixteenBytes pairs[4], fours[4];
  for (int i = 0; i < 4; ++i) {
    SixteenBytes even = {}, odd = {};
    std::memcpy(&even, rows[2 * i] + at, 8);
    std::memcpy(&odd, rows[2 * i + 1] + at, 8);
    pairs[i] =
        __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  for (int i = 0; i < 2; ++i) {
    const SixteenBytes a = pairs[2 * i], b = pairs[2 * i + 1];
    fours[i] =
        __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    fours[2 + i] =
        __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
  }
  for (int i = 0; i < 2; ++i) {
    const SixteenBytes a = fours[2 * i], b = fours[2 * i + 1];
    columns[2 * i] =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    columns[2 * i + 1] =
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  }
}

/// Converts bytes to wider values, and interleaves the rows: the values at one position in all rows
/// become adjacent.
RETORT_FOR_EACH_PROCESSOR void widen(const std::uint8_t* const* rows, std::size_t bytes,
                                     SixteenNumbers* result) {
  std::size_t at = 0;
  for (; at + kTurned <= bytes; at += kTurned) {
    for (int half = 0; half < 2; ++half) {
      SixteenBytes columns[4];
      turn(rows + half * kTurned, at, columns);
      for (int i = 0; i < kTurned; ++i) {
        EightBytes column;
        std::memcpy(&column, reinterpret_cast<const char*>(columns) + sizeof column * i,
                    sizeof column);
        const EightNumbers numbers = __builtin_convertvector(column, EightNumbers);
        std::memcpy(reinterpret_cast<char*>(&result[at + i]) + sizeof numbers * half, &numbers,
                    sizeof numbers);
      }
    }
  }
  for (; at < bytes; ++at) {
    for (int row = 0; row < kRows; ++row) result[at][row] = rows[row][at];
  }
}

RETORT_IN_EACH void round(const SixteenNumbers& sums, SixteenBytes& result) {
  SixteenShorts shorts = __builtin_convertvector(sums >> kCoefficientBits,
                                                 SixteenShorts);  // the ten remaining bits fit
  shorts = shorts < 0 ? SixteenShorts{} : shorts;
  shorts = shorts > 255 ? SixteenShorts{} + 255 : shorts;
  result = __builtin_convertvector(shorts, SixteenBytes);
}

/// Computes the pixels of the result in each row. All pixels use the same number of source pixels,
/// so the length of the loop is predictable.
RETORT_FOR_EACH_PROCESSOR void add_pixels(const SixteenNumbers* source,
                                          const Coefficients& coefficients, SixteenBytes* result) {
  const std::int32_t* values = coefficients.values.data();
  const std::size_t stride = coefficients.stride;
  const int first = coefficients.spans.front().begin, count = coefficients.most;
  for (const Span span : coefficients.spans) {
    const SixteenNumbers* pixel = source + std::ptrdiff_t{3} * (span.begin - first);
    SixteenNumbers red = SixteenNumbers{} + kHalfOfOne, green = red, blue = red;
    for (int i = 0; i < count; ++i, pixel += 3) {
      red += pixel[0] * values[i];
      green += pixel[1] * values[i];
      blue += pixel[2] * values[i];
    }
    round(red, result[0]);
    round(green, result[1]);
    round(blue, result[2]);
    result += 3;
    values += stride;
  }
}

/// The inverse of widen() for bytes: separates the interleaved rows.
RETORT_FOR_EACH_PROCESSOR void part(const SixteenBytes* source, std::size_t bytes,
                                    std::uint8_t* const* rows) {
  std::size_t at = 0;
  for (; at + kTurned <= bytes; at += kTurned) {
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* from[kTurned];
      for (int i = 0; i < kTurned; ++i)
        from[i] = reinterpret_cast<const std::uint8_t*>(&source[at + i]) + kTurned * half;
      SixteenBytes columns[4];
      turn(from, 0, columns);
      for (int i = 0; i < kTurned; ++i) {
        std::memcpy(rows[kTurned * half + i] + at,
                    reinterpret_cast<const char*>(columns) + kTurned * i, kTurned);
      }
    }
  }
  for (; at < bytes; ++at) {
    for (int row = 0; row < kRows; ++row) rows[row][at] = source[at][row];
  }
}

/// Computes `times` * 16 bytes of the result at offset `at`.
template <int times>
RETORT_IN_EACH void add_bytes(const std::uint8_t* const* rows, const std::int32_t* coefficients,
                              int count, std::size_t at, std::uint8_t* result) {
  SixteenNumbers sums[times];
  for (SixteenNumbers& sum : sums) sum = SixteenNumbers{} + kHalfOfOne;
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < times; ++j) {
      SixteenBytes bytes;
      std::memcpy(&bytes, rows[i] + at + sizeof bytes * j, sizeof bytes);
      sums[j] += __builtin_convertvector(bytes, SixteenNumbers) * coefficients[i];
    }
  }
  for (int j = 0; j < times; ++j) {
    SixteenBytes bytes;
    round(sums[j], bytes);
    std::memcpy(result + at + sizeof bytes * j, &bytes, sizeof bytes);
  }
}

RETORT_FOR_EACH_PROCESSOR void add_up(const std::uint8_t* const* rows,
                                      const std::int32_t* coefficients, int count,
                                      std::size_t bytes, std::uint8_t* result) {
  constexpr int kTimes = 4, kAtOnce = sizeof(SixteenBytes);  // as many sums as fit in the registers
  std::size_t at = 0;
  for (; at + kTimes * kAtOnce <= bytes; at += kTimes * kAtOnce)
    add_bytes<kTimes>(rows, coefficients, count, at, result);
  for (; at + kAtOnce <= bytes; at += kAtOnce) add_bytes<1>(rows, coefficients, count, at, result);
  for (; at < bytes; ++at) {
    std::int32_t sum = kHalfOfOne;
    for (int i = 0; i < count; ++i) sum += rows[i][at] * coefficients[i];
    result[at] = static_cast<std::uint8_t>(std::clamp(sum >> kCoefficientBits, 0, 255));
  }
}

#undef RETORT_FOR_EACH_PROCESSOR
#undef RETORT_IN_EACH

}  // namespace

SumsAlongRows::SumsAlongRows(Coefficients coefficients) : coefficients_(std::move(coefficients)) {
  source_.resize(3 * static_cast<std::size_t>(count() + coefficients_.most));
  result_.resize(3 * coefficients_.spans.size());
}

void SumsAlongRows::operator()(Sources sources, Results results, int rows) {
  // Unused slots repeat the last row.
  std::fill(sources.begin() + rows, sources.end(), sources[static_cast<std::size_t>(rows - 1)]);
  std::fill(results.begin() + rows, results.end(), results[static_cast<std::size_t>(rows - 1)]);
  widen(sources.data(), 3 * static_cast<std::size_t>(count()), source_.data());
  add_pixels(source_.data(), coefficients_, result_.data());
  part(result_.data(), result_.size(), results.data());
}

void add_rows(const Coefficients& coefficients, int at, const std::uint8_t* const* rows,
              std::size_t bytes, std::uint8_t* result) {
  const auto place = static_cast<std::size_t>(at);
  add_up(rows, coefficients.of(place), coefficients.spans[place].count(), bytes, result);
}

}  // namespace stages
