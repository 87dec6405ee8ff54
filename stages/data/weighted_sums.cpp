#include "stages/data/weighted_sums.h"

#include <algorithm>
#include <cstring>

namespace stages {
namespace {

// Compiled for several processors; the loader takes the best. Integers are the same bits on all of them.
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

/// Eight bytes of each of eight rows; the columns, two of them in each of the four.
RETORT_IN_EACH void turn(const std::uint8_t* const* rows, std::size_t at, SixteenBytes* columns) {
  SixteenBytes pairs[4], fours[4];
  for (int i = 0; i < 4; ++i) {
    SixteenBytes even = {}, odd = {};
    std::memcpy(&even, rows[2 * i] + at, 8);
    std::memcpy(&odd, rows[2 * i + 1] + at, 8);
    pairs[i] = __builtin_shufflevector(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  for (int i = 0; i < 2; ++i) {
    const SixteenBytes a = pairs[2 * i], b = pairs[2 * i + 1];
    fours[i] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
    fours[2 + i] = __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
  }
  for (int i = 0; i < 2; ++i) {
    const SixteenBytes a = fours[2 * i], b = fours[2 * i + 1];
    columns[2 * i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    columns[2 * i + 1] = __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  }
}

/// Writes the bytes of all rows at a place together, as numbers.
RETORT_FOR_EACH_PROCESSOR void widen(const std::uint8_t* const* rows, std::size_t bytes, SixteenNumbers* result) {
  std::size_t at = 0;
  for (; at + kTurned <= bytes; at += kTurned) {
    for (int half = 0; half < 2; ++half) {
      SixteenBytes columns[4];
      turn(rows + half * kTurned, at, columns);
      for (int i = 0; i < kTurned; ++i) {
        EightBytes column;
        std::memcpy(&column, reinterpret_cast<const char*>(columns) + sizeof column * i, sizeof column);
        const EightNumbers numbers = __builtin_convertvector(column, EightNumbers);
        std::memcpy(reinterpret_cast<char*>(&result[at + i]) + sizeof numbers * half, &numbers, sizeof numbers);
      }
    }
  }
  for (; at < bytes; ++at) {
    for (int row = 0; row < kRows; ++row) result[at][row] = rows[row][at];
  }
}

RETORT_IN_EACH void round(const SixteenNumbers& sums, SixteenBytes& result) {
  SixteenShorts shorts =
      __builtin_convertvector(sums >> kCoefficientBits, SixteenShorts);  // they fit: ten bits are left
  shorts = shorts < 0 ? SixteenShorts{} : shorts;
  shorts = shorts > 255 ? SixteenShorts{} + 255 : shorts;
  result = __builtin_convertvector(shorts, SixteenBytes);
}

/// The pixels of the result in each row. Each is made from as many, so that processors need not guess when one is done.
RETORT_FOR_EACH_PROCESSOR void add_pixels(const SixteenNumbers* source, const Coefficients& coefficients,
                                          SixteenBytes* result) {
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

/// The opposite of widen(), of bytes.
RETORT_FOR_EACH_PROCESSOR void part(const SixteenBytes* source, std::size_t bytes, std::uint8_t* const* rows) {
  std::size_t at = 0;
  for (; at + kTurned <= bytes; at += kTurned) {
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* from[kTurned];
      for (int i = 0; i < kTurned; ++i)
        from[i] = reinterpret_cast<const std::uint8_t*>(&source[at + i]) + kTurned * half;
      SixteenBytes columns[4];
      turn(from, 0, columns);
      for (int i = 0; i < kTurned; ++i) {
        std::memcpy(rows[kTurned * half + i] + at, reinterpret_cast<const char*>(columns) + kTurned * i, kTurned);
      }
    }
  }
  for (; at < bytes; ++at) {
    for (int row = 0; row < kRows; ++row) rows[row][at] = source[at][row];
  }
}

/// So many times sixteen bytes at `at`.
template <int times>
RETORT_IN_EACH void add_bytes(const std::uint8_t* const* rows, const std::int32_t* coefficients, int count,
                              std::size_t at, std::uint8_t* result) {
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

RETORT_FOR_EACH_PROCESSOR void add_up(const std::uint8_t* const* rows, const std::int32_t* coefficients, int count,
                                      std::size_t bytes, std::uint8_t* result) {
  constexpr int kTimes = 4, kAtOnce = sizeof(SixteenBytes);  // sums that fit the registers
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
  // Places that are not needed do the last row's work again.
  std::fill(sources.begin() + rows, sources.end(), sources[static_cast<std::size_t>(rows - 1)]);
  std::fill(results.begin() + rows, results.end(), results[static_cast<std::size_t>(rows - 1)]);
  widen(sources.data(), 3 * static_cast<std::size_t>(count()), source_.data());
  add_pixels(source_.data(), coefficients_, result_.data());
  part(result_.data(), result_.size(), results.data());
}

void add_rows(const Coefficients& coefficients, int at, const std::uint8_t* const* rows, std::size_t bytes,
              std::uint8_t* result) {
  const auto place = static_cast<std::size_t>(at);
  add_up(rows, coefficients.of(place), coefficients.spans[place].count(), bytes, result);
}

}  // namespace stages
