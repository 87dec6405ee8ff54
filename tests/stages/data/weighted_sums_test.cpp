#include "stages/data/weighted_sums.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace stages {
namespace {

/// Returns bytes that are often 0 or 255, so that sums exceed both ends of the range.
std::vector<std::uint8_t> some_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) {
    const auto number = random();
    byte = number % 3 == 0 ? 0 : number % 3 == 1 ? 255 : static_cast<std::uint8_t>(number >> 8);
  }
  return bytes;
}

/// Computes one sum according to the definition; byte(i) is the span's i-th neighbor.
std::uint8_t sum_of(const Coefficients& coefficients, std::size_t at, const auto& byte) {
  std::int64_t sum = std::int64_t{1} << (kCoefficientBits - 1);
  for (int i = 0; i < coefficients.spans[at].count(); ++i)
    sum += coefficients.of(at)[i] * std::int64_t{byte(i)};
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kCoefficientBits, 0, 255));
}

class WeightedSums : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  /// Coefficients for a side, without the first and last pixel of the result if it has more than
  /// two.
  static Coefficients inner(Interpolation interpolation) {
    const auto [from, to] = GetParam();
    const int left_out = to > 2 ? 1 : 0;
    return coefficients_of(interpolation, from, to, left_out, to - 2 * left_out);
  }
};

TEST_P(WeightedSums, AlongRowsMatchTheDefinitionForAnyNumberOfRows) {
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    const Coefficients coefficients = inner(interpolation);
    SumsAlongRows sums(coefficients);
    const std::size_t source_bytes = 3 * static_cast<std::size_t>(sums.count());
    const std::size_t result_bytes = 3 * coefficients.spans.size();
    for (const int rows : {1, 7, SumsAlongRows::kRows}) {
      // Neither buffer has space after its last byte, so a sanitizer reports accesses past the end.
      std::vector<std::vector<std::uint8_t>> from, to(static_cast<std::size_t>(rows));
      SumsAlongRows::Sources sources{};
      SumsAlongRows::Results results{};
      for (std::size_t row = 0; row < to.size(); ++row) {
        from.push_back(some_bytes(source_bytes, static_cast<unsigned>(row) + 1));
        to[row].resize(result_bytes);
        sources[row] = from[row].data();
        results[row] = to[row].data();
      }
      sums(sources, results, rows);
      for (std::size_t row = 0; row < to.size(); ++row) {
        for (std::size_t at = 0; at < result_bytes; ++at) {
          const std::size_t pixel = at / 3, first = static_cast<std::size_t>(
                                                coefficients.spans[pixel].begin - sums.first());
          const auto byte = [&](int i) {
            return from[row][3 * (first + static_cast<std::size_t>(i)) + at % 3];
          };
          ASSERT_EQ(to[row][at], sum_of(coefficients, pixel, byte))
              << "row " << row << " of " << rows << ", byte " << at;
        }
      }
    }
  }
}

TEST_P(WeightedSums, AcrossRowsMatchTheDefinitionForAnyWidth) {
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    const Coefficients coefficients = inner(interpolation);
    for (const std::size_t bytes : {1, 15, 16, 63, 64, 65, 100, 131}) {
      std::vector<std::vector<std::uint8_t>> from;
      for (int y = 0; y < GetParam().first; ++y)
        from.push_back(some_bytes(bytes, static_cast<unsigned>(y) + 1));
      for (std::size_t at = 0; at < coefficients.spans.size(); ++at) {
        const Span span = coefficients.spans[at];
        std::vector<const std::uint8_t*> rows;
        for (int y = span.begin; y < span.end; ++y)
          rows.push_back(from[static_cast<std::size_t>(y)].data());
        std::vector<std::uint8_t> result(bytes);
        add_rows(coefficients, static_cast<int>(at), rows.data(), bytes, result.data());
        for (std::size_t i = 0; i < bytes; ++i) {
          const auto byte = [&](int row) { return rows[static_cast<std::size_t>(row)][i]; };
          ASSERT_EQ(result[i], sum_of(coefficients, at, byte)) << "byte " << i << " of " << bytes;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sides, WeightedSums,
                         testing::Values(std::pair{1, 1}, std::pair{1, 40}, std::pair{9, 2},
                                         std::pair{50, 19}, std::pair{47, 64}, std::pair{300, 7}));

TEST(Coefficients, SumToOne) {
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    const Coefficients coefficients = coefficients_of(interpolation, 50, 19, 0, 19);
    for (std::size_t at = 0; at < coefficients.spans.size(); ++at) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < coefficients.stride; ++i)
        sum += coefficients.of(at)[i];  // including the entries after its end
      EXPECT_NEAR(sum, 1 << kCoefficientBits, coefficients.spans[at].count());
    }
  }
}

}  // namespace
}  // namespace stages
