#include "stages/data/resize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace stages {
namespace {

constexpr int kFractionBits = 22;  // 32 less 8 of the pixel and 2 of room for overshoot
constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
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

double weight(Interpolation interpolation, double x) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      return triangle(x);
    case Interpolation::kBicubic:
      return cubic(x);
  }
  return 0.0;
}

/// Along one side: which source pixels make up pixel `at` of the result, and how much of each.
class Kernel {
 public:
  Kernel(Interpolation interpolation, int from, std::int64_t to)
      : interpolation_(interpolation),
        from_(from),
        scale_(static_cast<double>(from) / static_cast<double>(to)),
        spread_(std::max(scale_, 1.0)),
        support_(support_of(interpolation) * spread_) {
    weights_.resize(most());
  }

  /// No pixel is made from more than so many.
  std::size_t most() const { return static_cast<std::size_t>(std::ceil(support_)) * 2 + 1; }

  struct Span {
    int begin, end;
  };

  Span span(std::int64_t at) const {
    const double center = (static_cast<double>(at) + 0.5) * scale_;
    return {std::max(static_cast<int>(center - support_ + 0.5), 0),
            std::min(static_cast<int>(center + support_ + 0.5), from_)};
  }

  /// Writes the coefficients of span(at).
  void coefficients(std::int64_t at, std::int32_t* result) {
    const Span pixels = span(at);
    const double center = (static_cast<double>(at) + 0.5) * scale_;
    const double shrink = 1.0 / spread_;
    const auto count = static_cast<std::size_t>(pixels.end - pixels.begin);
    double sum = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      weights_[i] = weight(interpolation_, (static_cast<double>(i) + pixels.begin - center + 0.5) * shrink);
      sum += weights_[i];
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (sum != 0.0) weights_[i] /= sum;
      const double scaled = weights_[i] * (1 << kFractionBits);
      result[i] = static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
    }
  }

 private:
  Interpolation interpolation_;
  int from_;
  double scale_, spread_, support_;
  std::vector<double> weights_;
};

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

// Compiled for several processors; the loader takes the best. Integers are the same bits on all of them.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "sse4.1", "default")))

/// The coefficients of neighbouring pixels of a result, each with as much room as the longest needs.
struct Coefficients {
  std::size_t stride = 0;
  std::vector<Kernel::Span> spans;
  std::vector<std::int32_t> values;
};

Coefficients coefficients_of(Kernel kernel, std::int64_t first, int count) {
  Coefficients result{kernel.most(), {}, {}};
  result.values.resize(result.stride * static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    result.spans.push_back(kernel.span(first + i));
    kernel.coefficients(first + i, &result.values[result.stride * static_cast<std::size_t>(i)]);
  }
  return result;
}

using FourBytes = std::uint8_t __attribute__((vector_size(4)));
using FourSums = std::int32_t __attribute__((vector_size(16)));

/// One row of the result. `row` begins with the first pixel of the first span and has a byte to spare at its end, so
/// that a pixel can be read as four bytes.
RETORT_FOR_EACH_PROCESSOR void resize_row(const std::uint8_t* row, const Coefficients& coefficients,
                                          std::uint8_t* result) {
  const std::int32_t* values = coefficients.values.data();
  const int first = coefficients.spans.front().begin;
  for (const Kernel::Span span : coefficients.spans) {
    const std::uint8_t* pixel = row + std::ptrdiff_t{3} * (span.begin - first);
    FourSums sums = {kHalf, kHalf, kHalf, kHalf};
    for (int i = 0; i < span.end - span.begin; ++i, pixel += 3) {
      FourBytes bytes;
      std::memcpy(&bytes, pixel, sizeof bytes);
      sums += __builtin_convertvector(bytes, FourSums) * values[i];
    }
    sums >>= kFractionBits;
    sums = sums < 0 ? FourSums{} : sums;
    sums = sums > 255 ? FourSums{255, 255, 255, 255} : sums;
    const FourBytes bytes = __builtin_convertvector(sums, FourBytes);
    std::memcpy(result, &bytes, 3);
    result += 3;
    values += coefficients.stride;
  }
}

/// Adds up `rows` with their coefficients, `bytes` bytes wide.
RETORT_FOR_EACH_PROCESSOR void add_rows(const std::uint8_t* const* rows, const std::int32_t* coefficients, int count,
                                        std::size_t bytes, std::uint8_t* result) {
  constexpr std::size_t kChunk = 32;  // sums that fit the registers
  std::size_t at = 0;
  for (; at + kChunk <= bytes; at += kChunk) {
    std::int32_t sums[kChunk];
    for (std::int32_t& sum : sums) sum = kHalf;
    for (int i = 0; i < count; ++i) {
      const std::uint8_t* row = rows[i] + at;
      for (std::size_t j = 0; j < kChunk; ++j) sums[j] += row[j] * coefficients[i];
    }
    for (std::size_t j = 0; j < kChunk; ++j) result[at + j] = rounded(sums[j]);
  }
  for (; at < bytes; ++at) {
    std::int32_t sum = kHalf;
    for (int i = 0; i < count; ++i) sum += rows[i][at] * coefficients[i];
    result[at] = rounded(sum);
  }
}

/// The pass along rows: source row y of the part to be resized becomes the pixels of `window`.
class AlongRow {
 public:
  AlongRow(int from, std::int64_t to, const Box& window, Interpolation interpolation) {
    if (to == from) {
      first_ = window.left;
      count_ = window.width;
    } else {
      coefficients_ = coefficients_of(Kernel(interpolation, from, to), window.left, window.width);
      first_ = coefficients_.spans.front().begin;
      count_ = coefficients_.spans.back().end - first_;
    }
    padded_.resize(bytes() + 1);
  }

  /// The source pixels it needs of a row.
  int first() const { return first_; }
  std::size_t bytes() const { return std::size_t{3} * static_cast<std::size_t>(count_); }

  /// `source` begins at pixel first().
  void operator()(const std::uint8_t* source, std::uint8_t* result) {
    if (coefficients_.spans.empty()) {
      std::memcpy(result, source, bytes());
    } else {
      std::memcpy(padded_.data(), source, bytes());
      resize_row(padded_.data(), coefficients_, result);
    }
  }

 private:
  int first_ = 0, count_ = 0;
  Coefficients coefficients_;  // none: the pass is left out
  std::vector<std::uint8_t> padded_;
};

}  // namespace

Image resize(const Image& image, const Box& from, std::int64_t width, std::int64_t height, const Box& window,
             Interpolation interpolation) {
  assert(from.left >= 0 && from.top >= 0 && from.left + from.width <= image.width &&
         from.top + from.height <= image.height);
  assert(window.width > 0 && window.height > 0 && window.left + window.width <= width &&
         window.top + window.height <= height);
  AlongRow along_row(from.width, width, window, interpolation);
  const auto source_row = [&](int y) {
    return image.row(from.top + y) + std::ptrdiff_t{3} * (from.left + along_row.first());
  };
  Image result = Image::unset(window.width, window.height);
  if (height == from.height) {
    for (int y = 0; y < window.height; ++y) along_row(source_row(window.top + y), result.row(y));
    return result;
  }

  Kernel column(interpolation, from.height, height);
  std::vector<const std::uint8_t*> rows(column.most());
  std::vector<std::int32_t> coefficients(column.most());
  const std::int64_t shorter = from.height - height, narrower = from.width - width;
  if (shorter > 0 && shorter > 2 * narrower) {
    std::vector<std::uint8_t> sums(along_row.bytes());
    for (int y = 0; y < window.height; ++y) {
      const Kernel::Span needed = column.span(window.top + y);
      column.coefficients(window.top + y, coefficients.data());
      for (int i = needed.begin; i < needed.end; ++i) rows[static_cast<std::size_t>(i - needed.begin)] = source_row(i);
      add_rows(rows.data(), coefficients.data(), needed.end - needed.begin, sums.size(), sums.data());
      along_row(sums.data(), result.row(y));
    }
    return result;
  }
  // Only as many resized rows are held as one row of the result is made from; row y lies at y modulo their number.
  const std::size_t row_bytes = std::size_t{3} * static_cast<std::size_t>(window.width);
  std::vector<std::uint8_t> held(column.most() * row_bytes);
  const auto place = [&](int y) { return held.data() + static_cast<std::size_t>(y) % column.most() * row_bytes; };
  int next = 0;
  for (int y = 0; y < window.height; ++y) {
    const Kernel::Span needed = column.span(window.top + y);
    for (next = std::max(next, needed.begin); next < needed.end; ++next) along_row(source_row(next), place(next));
    column.coefficients(window.top + y, coefficients.data());
    for (int i = needed.begin; i < needed.end; ++i) rows[static_cast<std::size_t>(i - needed.begin)] = place(i);
    add_rows(rows.data(), coefficients.data(), needed.end - needed.begin, row_bytes, result.row(y));
  }
  return result;
}

Image resize(const Image& image, int width, int height, Interpolation interpolation) {
  return resize(image, {0, 0, image.width, image.height}, width, height, {0, 0, width, height}, interpolation);
}

#undef RETORT_FOR_EACH_PROCESSOR

}  // namespace stages
