#include "stages/random/launch_dropout.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "stages/random/apply_dropout.h"
#include "tests/support/kernels_on_cpu/device_array.h"
#include "tests/support/kernels_on_cpu/launch.h"

namespace stages {
namespace {

using kernels_on_cpu::DeviceArray;
using kernels_on_cpu::Order;
using kernels_on_cpu::Schedule;
using kernels_on_cpu::ScopedSchedule;

template <typename T>
class LaunchDropout : public testing::Test {
 public:
  static constexpr FloatType kFloatType = std::is_same_v<T, float>      ? FloatType::kFloat32
                                          : std::is_same_v<T, double>   ? FloatType::kFloat64
                                          : std::is_same_v<T, at::Half> ? FloatType::kFloat16
                                                                        : FloatType::kBFloat16;
};
using FloatTypes = testing::Types<float, double, at::Half, at::BFloat16>;
TYPED_TEST_SUITE(LaunchDropout, FloatTypes);

constexpr DropoutMask kMask{.seed = 0x123456789abcdef0, .layer = 3, .probability = 0.3};
constexpr std::int64_t kStep = 7;

/// Waves, with some values that become infinite when scaled.
template <typename T>
std::vector<T> inputs(std::size_t count) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = i % 11 == 5 ? std::numeric_limits<T>::max()
                       : static_cast<T>(std::sin(0.37 * static_cast<double>(i)));
  return x;
}

std::vector<std::int64_t> sample_numbers(std::int64_t rows) {
  std::vector<std::int64_t> samples = {0xFFFFFFFF};
  for (std::int64_t row = 1; row < rows; ++row) samples.push_back(row * row % 101);
  return samples;
}

/// Returns the result of the CPU's loop.
template <typename T>
std::vector<T> looped(const DropoutMask& mask, std::vector<T> x,
                      std::vector<std::int64_t> samples) {
  const auto rows = static_cast<std::int64_t>(samples.size());
  const auto width = static_cast<std::int64_t>(x.size()) / rows;
  const at::Tensor y = apply_dropout(
      mask, at::from_blob(x.data(), {rows, width}, c10::CppTypeToScalarType<T>::value),
      {at::full({}, kStep, at::kLong), at::from_blob(samples.data(), {rows}, at::kLong)});
  return {y.const_data_ptr<T>(), y.const_data_ptr<T>() + y.numel()};
}

/// Expects the kernel to write the bits of the CPU's loop, both to another array and in place.
template <typename T>
void expect_bits_of_loop(const DropoutMask& mask, std::int64_t rows, std::int64_t width) {
  const std::string name = std::to_string(rows) + " rows of " + std::to_string(width);
  const std::vector<T> values = inputs<T>(static_cast<std::size_t>(rows * width));
  const std::vector<T> expected = looped(mask, values, sample_numbers(rows));
  const DeviceArray<std::int64_t> step("step", std::vector{kStep}),
      samples("samples", sample_numbers(rows));
  const DeviceArray<T> x("x", values), y("y", values.size());
  const auto launch = [&](T* to) {
    launch_dropout(mask, LaunchDropout<T>::kFloatType, x.data(), to, step.data(), samples.data(),
                   rows, width, nullptr);
  };
  const auto is_expected = [&](const DeviceArray<T>& actual) {
    return std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(T)) == 0;
  };
  ASSERT_NO_THROW(launch(y.data())) << name;
  EXPECT_TRUE(is_expected(y)) << name;
  ASSERT_NO_THROW(launch(x.data())) << name << ", in place";
  EXPECT_TRUE(is_expected(x)) << name << ", in place";
}

TYPED_TEST(LaunchDropout, KernelMatchesTheLoopForEveryWidth) {
  for (const DropoutUnit unit : {DropoutUnit::kElement, DropoutUnit::kSample}) {
    DropoutMask mask = kMask;
    mask.unit = unit;
    for (const std::int64_t width : {1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 256, 257}) {
      for (const std::int64_t rows : {1, 2, 5}) expect_bits_of_loop<TypeParam>(mask, rows, width);
    }
  }
}

// A block has 256 threads with four elements each.
TYPED_TEST(LaunchDropout, KernelMatchesTheLoopAroundTheBlockSize) {
  for (const std::int64_t width : {1019, 1020, 1021, 1023, 1024, 1025, 1029})
    expect_bits_of_loop<TypeParam>(kMask, 1, width);
  for (const std::int64_t rows : {255, 256, 257}) expect_bits_of_loop<TypeParam>(kMask, rows, 3);
}

TYPED_TEST(LaunchDropout, ResultDoesNotDependOnThreadOrderOrGrid) {
  for (const unsigned blocks : {1u, 2u, 3u, 100u}) {
    for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
      const ScopedSchedule schedule(
          {.blocks = order, .threads = order, .seed = 1, .most_blocks = blocks});
      expect_bits_of_loop<TypeParam>(kMask, 7, 601);
    }
  }
}

TYPED_TEST(LaunchDropout, RareAndFrequentDropsMatchTheLoop) {
  for (const double probability : {0.0, 1e-9, 0.999}) {
    DropoutMask mask = kMask;
    mask.probability = probability;
    expect_bits_of_loop<TypeParam>(mask, 3, 101);
  }
}

TYPED_TEST(LaunchDropout, ZeroElementsAreRejected) {
  EXPECT_THROW(
      launch_dropout(kMask, this->kFloatType, nullptr, nullptr, nullptr, nullptr, 0, 5, nullptr),
      std::runtime_error);
}

}  // namespace
}  // namespace stages
