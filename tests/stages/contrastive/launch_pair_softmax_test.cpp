#include "stages/contrastive/launch_pair_softmax.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "stages/contrastive/loop_pair_softmax.h"
#include "stages/contrastive/tiles.h"
#include "tests/support/kernels_on_cpu/device_array.h"
#include "tests/support/kernels_on_cpu/launch.h"

namespace stages {
namespace {

using kernels_on_cpu::DeviceArray;
using kernels_on_cpu::Order;
using kernels_on_cpu::ScopedSchedule;

constexpr double kFactor = 14.3;  // the products are in [-1, 1]

/// A tile of a matrix of pairs, and the state that both implementations start from.
template <typename T>
struct Tile {
  std::int64_t pairs, row, rows, column, columns;
  bool has_groups = false;

  std::string name() const {
    return std::to_string(rows) + " x " + std::to_string(columns) + " at " + std::to_string(row) +
           ", " + std::to_string(column) + (has_groups ? ", with groups" : "");
  }
  std::vector<T> products() const {
    std::vector<T> values;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j)
        values.push_back(static_cast<T>(
            std::sin(0.37 * static_cast<double>(row + i) + 1.7 * static_cast<double>(column + j))));
    }
    return values;
  }
  std::vector<T> each(T first, T step) const {
    std::vector<T> values;
    for (std::int64_t i = 0; i < pairs; ++i) values.push_back(first + step * static_cast<T>(i % 5));
    return values;
  }
  std::vector<std::int64_t> groups() const {
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < pairs; ++i) numbers.push_back(i % 3);
    return numbers;
  }
};

/// CPU memory with the interface of DeviceArray.
template <typename T>
class HostArray {
 public:
  HostArray(const std::string&, std::vector<T> values) : values_(std::move(values)) {}

  T* data() { return values_.data(); }
  const std::vector<T>& values() const { return values_; }

 private:
  std::vector<T> values_;
};

/// The inputs and outputs for the sums of a tile. Sums start as if other tiles had been added.
template <typename T, template <typename> class Array>
struct Sums {
  explicit Sums(const Tile<T>& tile)
      : tile(tile),
        products("products", tile.products()),
        factor("factor", std::vector{static_cast<T>(kFactor)}),
        groups("groups", tile.groups()),
        shares("shares", tile.each(T(0.25), T(0.125))),
        row_largest("row_largest", tile.each(-3, 2)),
        row_sum("row_sum", tile.each(1, T(0.5))),
        column_largest("column_largest", tile.each(4, -2)),
        column_sum("column_sum", tile.each(1, T(0.25))),
        right("right", tile.each(-1, T(0.5))) {}

  PairTile<T> pair_tile() {
    return {products.data(), tile.row, tile.rows, tile.column, tile.columns, factor.data()};
  }
  RightPairs<T> right_pairs() {
    if (!tile.has_groups) return {};
    return {groups.data(), shares.data()};
  }
  PairSums<T> pair_sums() {
    return {row_largest.data(), row_sum.data(), column_largest.data(), column_sum.data(),
            right.data()};
  }

  const Tile<T> tile;
  Array<T> products, factor;
  Array<std::int64_t> groups;
  Array<T> shares, row_largest, row_sum, column_largest, column_sum, right;
};

/// The inputs and outputs of the gradient of a tile.
template <typename T, template <typename> class Array>
struct Gradients {
  explicit Gradients(const Tile<T>& tile)
      : sums(tile),
        of_rows("of_rows", tile.each(17, 2)),
        of_columns("of_columns", tile.each(21, -1)),
        weight("weight", std::vector{T(0.25)}),
        by_scale("by_scale", tile.each(-1, T(0.5))) {}

  PairGradient<T> pair_gradient() {
    return {of_rows.data(), of_columns.data(), weight.data(), by_scale.data()};
  }

  Sums<T, Array> sums;
  Array<T> of_rows, of_columns, weight, by_scale;
};

/// Bounds the difference between two sums of the same numbers, in any order of addition: Higham,
/// "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2.
template <typename T>
double rounding(std::int64_t operations, double magnitude) {
  const double relative =
      static_cast<double>(operations) * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  return 2 * relative / (1 - relative) * magnitude;
}

/// Bounds the relative difference between two RunningLogSum::sum of `terms` numbers. A number is
/// added once and passes at most `terms` + 16 chunks. In each of these, its sum is multiplied by an
/// exponential, which has an error of one ulp, and another sum is added: four roundings. Rounding
/// the exponents changes the sum once, by the range of the numbers, which differ by less than 2 ·
/// 16.
template <typename T>
double log_sum_rounding(std::int64_t terms) {
  return rounding<T>(4 * (terms + 16) + 32, 1);
}

template <typename T>
void expect_near(const std::vector<T>& actual, const std::vector<T>& expected, double most,
                 bool is_relative, const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], is_relative ? most * std::abs(expected[i]) : most)
        << name << ", number " << i;
}

template <typename T>
void expect_sums_of_loop(const Tile<T>& tile) {
  Sums<T, DeviceArray> kernel(tile);
  Sums<T, HostArray> loop(tile);
  ASSERT_NO_THROW(
      launch_pair_sums(kernel.pair_tile(), kernel.right_pairs(), kernel.pair_sums(), nullptr))
      << tile.name();
  loop_pair_sums(loop.pair_tile(), loop.right_pairs(), loop.pair_sums());
  EXPECT_EQ(kernel.products.values(), loop.products.values()) << tile.name();
  EXPECT_EQ(kernel.row_largest.values(), loop.row_largest.values()) << tile.name();
  EXPECT_EQ(kernel.column_largest.values(), loop.column_largest.values()) << tile.name();
  expect_near(kernel.row_sum.values(), loop.row_sum.values(), log_sum_rounding<T>(tile.columns),
              true, tile.name() + ", row_sum");
  expect_near(kernel.column_sum.values(), loop.column_sum.values(), log_sum_rounding<T>(tile.rows),
              true, tile.name() + ", column_sum");
  // Each share is below 1.
  const double right = tile.has_groups ? static_cast<double>(tile.columns) * kFactor : kFactor;
  expect_near(kernel.right.values(), loop.right.values(), rounding<T>(tile.columns + 2, right + 1),
              false, tile.name() + ", right");
}

template <typename T>
void expect_gradient_of_loop(const Tile<T>& tile) {
  Gradients<T, DeviceArray> kernel(tile);
  Gradients<T, HostArray> loop(tile);
  ASSERT_NO_THROW(launch_pair_gradient(kernel.sums.pair_tile(), kernel.sums.right_pairs(),
                                       kernel.pair_gradient(), nullptr))
      << tile.name();
  loop_pair_gradient(loop.sums.pair_tile(), loop.sums.right_pairs(), loop.pair_gradient());
  EXPECT_EQ(kernel.sums.products.values(), loop.sums.products.values()) << tile.name();
  // A gradient is a quarter of two differences in [-1, 1], since of_rows and of_columns exceed all
  // similarities.
  const double magnitude = static_cast<double>(tile.columns) * 0.5 * kFactor + 1;
  expect_near(kernel.by_scale.values(), loop.by_scale.values(),
              rounding<T>(tile.columns + 2, magnitude), false, tile.name() + ", by_scale");
}

template <typename T>
void expect_tile_of_loop(const Tile<T>& tile) {
  expect_sums_of_loop(tile);
  expect_gradient_of_loop(tile);
}

template <typename T>
class LaunchPairSoftmax : public testing::Test {};
using PairTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(LaunchPairSoftmax, PairTypes);

// A block of threads takes 256 columns of a row at a time, or 16 rows of 32 columns.
TYPED_TEST(LaunchPairSoftmax, KernelsMatchTheLoopsForEveryWidth) {
  for (const bool has_groups : {false, true}) {
    for (const std::int64_t columns : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 255, 256, 257}) {
      for (const std::int64_t rows : {1, 3})
        expect_tile_of_loop<TypeParam>({.pairs = columns + rows,
                                        .row = 0,
                                        .rows = rows,
                                        .column = 0,
                                        .columns = columns,
                                        .has_groups = has_groups});
    }
  }
}

TYPED_TEST(LaunchPairSoftmax, KernelsMatchTheLoopsForEveryHeight) {
  for (const std::int64_t rows : {15, 16, 17, 31, 33})
    expect_tile_of_loop<TypeParam>(
        {.pairs = 40, .row = 0, .rows = rows, .column = 0, .columns = 5});
}

TYPED_TEST(LaunchPairSoftmax, TilesOnlyChangeTheSumsOfTheirRowsAndColumns) {
  for (const bool has_groups : {false, true}) {
    for_each_tile(41, 41, 16, [&](auto row, auto rows, auto column, auto columns) {
      expect_tile_of_loop<TypeParam>({41, row, rows, column, columns, has_groups});
    });
  }
}

TYPED_TEST(LaunchPairSoftmax, ResultDoesNotDependOnTheOrderOfThreads) {
  const Tile<TypeParam> tile{300, 7, 20, 1, 290, true};
  const auto results = [&tile](Order order) {
    const ScopedSchedule schedule({.blocks = order, .threads = order, .seed = 3});
    Gradients<TypeParam, DeviceArray> all(tile);
    Sums<TypeParam, DeviceArray>& sums = all.sums;
    launch_pair_sums(sums.pair_tile(), sums.right_pairs(), sums.pair_sums(), nullptr);
    launch_pair_gradient(sums.pair_tile(), sums.right_pairs(), all.pair_gradient(), nullptr);
    return std::vector{sums.row_sum.values(), sums.column_sum.values(), sums.right.values(),
                       all.by_scale.values(), sums.products.values()};
  };
  const auto expected = results(Order::kForward);
  EXPECT_EQ(results(Order::kBackward), expected);
  EXPECT_EQ(results(Order::kShuffled), expected);
}

}  // namespace
}  // namespace stages
