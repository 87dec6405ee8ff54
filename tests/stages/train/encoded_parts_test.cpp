#include "stages/train/validation.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"

namespace stages {
namespace {

EncodedParts two_parts() {
  EncodedParts parts;
  parts.add({{"query", torch::arange(3, here())},
             {"support", torch::ones({1, 2}, here())},
             {"temperature", torch::full({}, 5.0, here())}});
  parts.add({{"query", torch::arange(3, 5, here())},
             {"support", torch::zeros({2, 2}, here())},
             {"temperature", torch::full({}, 5.0, here())}});
  return parts;
}

TEST(EncodedParts, RowsAreJoinedAndScalarsAreKeptOnce) {
  const NamedTensors joined = two_parts().join();
  EXPECT_TRUE(joined.at("query").equal(torch::arange(5, here())));
  EXPECT_TRUE(joined.at("support").equal(
      torch::tensor({{1.0f, 1.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}}, here())));
  EXPECT_EQ(joined.at("temperature").item<double>(), 5);
  EXPECT_EQ(joined.size(), 3);
}

TEST(EncodedParts, JoinedTensorsAreSplitAgain) {
  EncodedParts parts = two_parts();
  const NamedTensors joined = parts.join(), first = parts.cut(joined, 0),
                     second = parts.cut(joined, 1);
  EXPECT_TRUE(first.at("query").equal(torch::arange(3, here())));
  EXPECT_TRUE(second.at("query").equal(torch::arange(3, 5, here())));
  EXPECT_TRUE(second.at("support").equal(torch::zeros({2, 2}, here())));
  EXPECT_TRUE(first.contains("temperature"));
  EXPECT_FALSE(second.contains("temperature"));
  EXPECT_EQ(parts.cut({{"query", torch::arange(5, here())}}, 1).size(), 1);
}

}  // namespace
}  // namespace stages
