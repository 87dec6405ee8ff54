#include "stages/memory/meta_batch.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace stages {
namespace {

DatasetDescription images() {
  DatasetDescription description;
  description.size = 100;
  description.tensors = {{"image", {3, 8, 8}, torch::kFloat}, {"label", {}, torch::kLong}};
  return description;
}

TEST(MetaBatch, IsShapedAsDescribed) {
  const Batch batch = meta_batch(images(), 5);
  EXPECT_EQ(batch.units(), 5);
  EXPECT_TRUE(batch["image"].is_meta());
  EXPECT_EQ(batch["image"].sizes(), (std::vector<std::int64_t>{5, 3, 8, 8}));
  EXPECT_EQ(batch["label"].scalar_type(), torch::kLong);
  EXPECT_EQ(batch.indices, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(MetaBatch, SampleTakesTheBytesOfAllItsTensors) { EXPECT_EQ(sample_bytes(images()), 3 * 8 * 8 * 4 + 8); }

}  // namespace
}  // namespace stages
