#include "stages/ranks/packed_tensors.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

/// Tensors of several types, in several layouts; all numbers are `number`.
std::vector<at::Tensor> tensors_of(double number) {
  return {torch::full({3}, number, torch::kDouble),
          torch::full({2, 5}, number).t(),
          torch::full({}, number, torch::kLong),
          torch::full({1}, number, torch::kDouble),
          torch::full({0, 4}, number),
          torch::full({7}, number, torch::kHalf)};
}

TEST(PackedTensors, AreAddedInTheOrderOfTheCopies) {
  std::vector<std::vector<double>> memory;  // of doubles, to be aligned
  std::vector<std::uint8_t*> copies;
  for (const double number : {1e4, 1.0, -1e4}) {
    const PackedTensors packed(tensors_of(number));
    memory.emplace_back(static_cast<std::size_t>(packed.bytes()) / sizeof(double));
    copies.push_back(reinterpret_cast<std::uint8_t*>(memory.back().data()));
    packed.pack(copies.back());
  }
  const std::vector<at::Tensor> sums = tensors_of(0);
  PackedTensors(sums).set_to_sum(copies);
  for (const at::Tensor& sum : sums) {
    // A half near 10000 is a multiple of 8, so the second number is lost.
    const double expected = sum.scalar_type() == torch::kHalf ? 0 : 1;
    EXPECT_TRUE(sum.eq(expected).all().item<bool>()) << sum;
  }
}

TEST(PackedTensors, TypesAreAligned) {
  EXPECT_EQ(PackedTensors({}).bytes(), 0);
  EXPECT_EQ(PackedTensors({torch::zeros({1}, torch::kByte)}).bytes(), 16);
  EXPECT_EQ(PackedTensors(tensors_of(0)).bytes(), 32 + 48 + 16 + 16);
}

}  // namespace
}  // namespace stages
