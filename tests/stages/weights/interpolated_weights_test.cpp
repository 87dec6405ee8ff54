#include "stages/weights/interpolated_weights.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

NamedTensors two(double a, double b) {
  NamedTensors tensors;
  tensors.set("a", torch::full({2}, a));
  tensors.set("b", torch::full({1, 2}, b));
  tensors.set("count", torch::tensor(static_cast<std::int64_t>(a)));
  return tensors;
}

TEST(InterpolatedWeights, EndpointsAreExact) {
  const NamedTensors from = two(0.1, 7), to = two(0.7, -3);
  for (const char* const name : {"a", "b"}) {
    EXPECT_TRUE(torch::equal(interpolated_weights(from, to, 0).at(name), from.at(name)));
    EXPECT_TRUE(torch::equal(interpolated_weights(from, to, 1).at(name), to.at(name)));
  }
}

TEST(InterpolatedWeights, StepsOfOneOverNGiveTheMean) {
  NamedTensors mean = two(1, 10);
  mean = interpolated_weights(mean, two(3, 20), 1.0 / 2);
  mean = interpolated_weights(mean, two(8, 60), 1.0 / 3);
  EXPECT_TRUE(torch::allclose(mean.at("a"), torch::full({2}, 4.0)));
  EXPECT_TRUE(torch::allclose(mean.at("b"), torch::full({1, 2}, 30.0)));
}

TEST(InterpolatedWeights, IntegersComeFromTheFirstWeights) {
  EXPECT_EQ(interpolated_weights(two(3, 0), two(9, 0), 0.5).at("count").item<std::int64_t>(), 3);
}

TEST(InterpolatedWeights, ArgumentsAreLeftAlone) {
  const NamedTensors from = two(1, 1);
  interpolated_weights(from, two(5, 5), 0.5);
  EXPECT_TRUE(torch::equal(from.at("a"), torch::ones({2})));
}

TEST(InterpolatedWeights, MismatchedNamesAndShapesAreRejected) {
  NamedTensors other = two(1, 1);
  other.set("a", torch::ones({3}));
  EXPECT_THROW(interpolated_weights(two(1, 1), other, 0.5), std::invalid_argument);
  NamedTensors fewer;
  fewer.set("a", torch::ones({2}));
  EXPECT_THROW(interpolated_weights(two(1, 1), fewer, 0.5), std::invalid_argument);
}

}  // namespace
}  // namespace stages
