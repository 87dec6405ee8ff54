#include "stages/train/host_block.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_trace.h"
#include "tests/support/on_test_device.h"

namespace stages {
namespace {

TEST(HostBlock, StartsWithZerosInTheSameLayout) {
  const at::Tensor image = torch::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor row = torch::rand({7}, torch::kDouble),
                   gaps = torch::rand({4, 6}).slice(1, 0, 6, 2);
  const HostBlock block({part_like(image), part_like(row), part_like(gaps)}, at::kCPU);
  const std::vector<at::Tensor> tensors = block.tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_TRUE(tensors[0].equal(torch::zeros({2, 3, 4, 5})));
  EXPECT_EQ(tensors[0].strides(), image.strides());
  EXPECT_TRUE(tensors[1].equal(torch::zeros({7}, torch::kDouble)));
  EXPECT_TRUE(tensors[2].equal(torch::zeros({4, 3})));
  EXPECT_TRUE(tensors[2].is_contiguous());
  EXPECT_GE(block.bytes(),
            static_cast<std::int64_t>(image.nbytes() + row.nbytes() + 4 * 3 * sizeof(float)));
}

TEST(HostBlock, ChangesAreWrittenBack) {
  const at::Tensor x = torch::rand({5}), y = torch::rand({3, 3}, torch::kDouble);
  HostBlock block({part_like(x), part_like(y)}, here().device());
  for (int round = 1; round <= 2; ++round) {
    const at::Tensor scratch =
        torch::full({block.bytes() + 64}, 7, here().dtype(torch::kByte));  // larger than needed
    const std::vector<at::Tensor> brought = block.bring(scratch);
    brought[0].add_(x.to(here().device()));
    brought[1].add_(y.to(here().device()));
    block.wait();
    EXPECT_TRUE(block.tensors()[0].equal(x * (round - 1))) << "it is a copy";
    block.put_back(scratch);
    block.wait();
    EXPECT_TRUE(block.tensors()[0].equal(x * round));
    EXPECT_TRUE(block.tensors()[1].equal(y * round));
  }
}

TEST(HostBlock, UsesNoDeviceMemoryInADryRun) {
  onednn_unfolds_images();  // a trace calls this once, which allocates tensors
  const CountingAllocator counter;
  MemoryTrace trace({.device = at::kCUDA, .model = {}});
  const at::Tensor like = torch::empty({1000}, at::device(at::kMeta));
  const std::size_t before = trace.events().size();
  HostBlock block({part_like(like), part_like(like)}, at::kMeta);
  EXPECT_EQ(trace.events().size(), before);
  const at::Tensor scratch = block.scratch();
  for (const at::Tensor& one : block.bring(scratch)) one.sqrt_();
  block.put_back(scratch);
  ASSERT_EQ(trace.events().size(), before + 1);
  EXPECT_EQ(trace.storages()[trace.events()[before].storage].bytes, block.bytes());
  EXPECT_EQ(counter.peak_bytes(), 0) << "no memory is allocated";
}

}  // namespace
}  // namespace stages
