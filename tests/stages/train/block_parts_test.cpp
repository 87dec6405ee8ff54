#include "stages/train/block_parts.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(BlockParts, DoNotOverlapAndAreAligned) {
  const std::vector<BlockPart> parts = {
      {{3}, at::kByte}, {{2, 5}, at::kDouble}, {{}, at::kBool}, {{7}, at::kFloat}};
  EXPECT_EQ(bytes_of(parts), 64 + 128 + 64 + 64);
  const at::Tensor block = torch::zeros({bytes_of(parts)}, at::kByte);
  const std::vector<at::Tensor> tensors = parts_within(block, parts);
  ASSERT_EQ(tensors.size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(tensors[i].sizes(), at::IntArrayRef(parts[i].sizes));
    EXPECT_EQ(tensors[i].scalar_type(), parts[i].type);
    EXPECT_TRUE(tensors[i].is_contiguous());
    for (const at::Tensor& one : tensors) one.zero_();
    tensors[i].fill_(1);
    for (std::size_t other = 0; other < parts.size(); ++other)
      EXPECT_EQ(tensors[other].any().item<bool>(), other == i);
  }
}

TEST(BlockParts, PartHasTheLayoutOfTheTensor) {
  const at::Tensor image = torch::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(at::IntArrayRef(strides_of(part_like(image))), image.strides());
  EXPECT_EQ(strides_of({{2, 3}, at::kFloat}), (std::vector<std::int64_t>{3, 1}));
}

}  // namespace
}  // namespace stages
