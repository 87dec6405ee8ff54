#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stages/data/coefficients.h"

namespace stages {

/// Resizes rows of RGB pixels along their length; each sum is rounded to 8 bits. Many rows are done at once, because
/// their pixels have the same coefficients.
class SumsAlongRows {
 public:
  static constexpr int kRows = 16;
  using Sources = std::array<const std::uint8_t*, kRows>;
  using Results = std::array<std::uint8_t*, kRows>;

  explicit SumsAlongRows(Coefficients coefficients);

  /// The pixels that are read of a row.
  int first() const { return coefficients_.spans.front().begin; }
  int count() const { return coefficients_.spans.back().end - first(); }

  /// Does the first `rows` rows, from 1 to kRows. Each of `sources` is at pixel first(), each of `results` at the first
  /// pixel of the result.
  void operator()(Sources sources, Results results, int rows);

 private:
  /// What is at one place of each row, or a sum of that.
  using Bytes = std::uint8_t __attribute__((vector_size(kRows)));
  using Numbers = std::int32_t __attribute__((vector_size(4 * kRows)));

  Coefficients coefficients_;
  std::vector<Numbers> source_;
  std::vector<Bytes> result_;
};

/// Row `at` of the result of resizing across rows, whatever is in them: `rows` are those of its span, each of `bytes`
/// bytes.
void add_rows(const Coefficients& coefficients, int at, const std::uint8_t* const* rows, std::size_t bytes,
              std::uint8_t* result);

}  // namespace stages
