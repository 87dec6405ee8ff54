#include "stages/tensor/batch.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(Batch, PartOfSamplesIsAViewOfTheSameRows) {
  Batch batch({{"image", torch::arange(8).reshape({4, 2})}, {"label", torch::arange(4)}}, 4);
  batch.indices = {10, 11, 12, 13};
  const Batch part = batch.part(1, 3);
  EXPECT_EQ(part.units(), 2);
  EXPECT_EQ(part.indices, (std::vector<std::int64_t>{11, 12}));
  EXPECT_TRUE(part["label"].equal(torch::tensor({1, 2})));
  EXPECT_EQ(part["image"].storage().data(), batch["image"].storage().data());
}

TEST(Batch, PartOfGroupsKeepsTheRowsOfEachTensor) {
  const Batch batch({{"support", torch::arange(3)}, {"query", torch::arange(9)}}, 3,
                    {{"support", {0, 1, 2, 3}}, {"query", {0, 2, 5, 9}}});
  const Batch part = batch.part(1, 3);
  EXPECT_TRUE(part["support"].equal(torch::tensor({1, 2})));
  EXPECT_TRUE(part["query"].equal(torch::tensor({2, 3, 4, 5, 6, 7, 8})));
  EXPECT_TRUE(part.part(1, 2)["query"].equal(torch::tensor({5, 6, 7, 8})));
}

TEST(Batch, RowsOfUnitsDependOnTheTensor) {
  const Batch samples({{"image", torch::arange(8)}}, 8);
  EXPECT_EQ(samples.rows("image", 2, 5), std::pair(std::int64_t{2}, std::int64_t{5}));
  const Batch groups({{"support", torch::arange(3)}, {"query", torch::arange(9)}}, 3,
                     {{"support", {0, 1, 2, 3}}, {"query", {0, 2, 5, 9}}});
  EXPECT_EQ(groups.rows("query", 1, 3), std::pair(std::int64_t{2}, std::int64_t{9}));
  EXPECT_EQ(groups.rows("support", 1, 3), std::pair(std::int64_t{1}, std::int64_t{3}));
  EXPECT_EQ(groups.part(1, 3).rows("query", 1, 2), std::pair(std::int64_t{3}, std::int64_t{7}));
}

TEST(Batch, MismatchedRowsAreRejected) {
  for (const std::int64_t units : {2, 4})
    EXPECT_THROW(Batch({{"label", torch::arange(3)}}, units), std::invalid_argument) << units;
  EXPECT_THROW(Batch({{"label", torch::arange(3)}}, 2, {{"label", {0, 1, 2}}}),
               std::invalid_argument);
  EXPECT_THROW(Batch({{"label", torch::arange(3)}}, 2, {}), std::invalid_argument);
}

TEST(NamedTensors, UnknownNameListsTheKnownOnes) {
  const NamedTensors tensors{{"image", torch::zeros(1)}, {"label", torch::zeros(1)}};
  try {
    tensors.at("labels");
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "no tensor 'labels' among: image, label");
  }
}

TEST(Batch, TensorCanBeReplaced) {
  Batch batch({{"image", torch::zeros({2, 3})}, {"label", torch::zeros(2)}}, 2);
  batch.indices = {4, 5};
  const Batch other = batch.with("image", torch::ones({2, 1}));
  EXPECT_TRUE(other["image"].equal(torch::ones({2, 1})));
  EXPECT_TRUE(other["label"].is_same(batch["label"]));
  EXPECT_EQ(other.indices, batch.indices);
  EXPECT_TRUE(batch["image"].equal(torch::zeros({2, 3})));
  EXPECT_THROW(batch.with("image", torch::ones({3, 3})), std::invalid_argument);
  EXPECT_THROW(batch.with("sound", torch::ones({2, 3})), std::out_of_range);
}

}  // namespace
}  // namespace stages
