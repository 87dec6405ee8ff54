#include "stages/train/batch_buffers.h"

#include <optional>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/plan/memory_trace.h"
#include "tests/support/needs_gpu.h"

namespace stages {
namespace {

Batch numbered(std::int64_t value, std::int64_t rows = 4) {
  Batch batch({{"image", torch::full({rows, 3, 5}, value, torch::kFloat)},
               {"label", torch::full({rows}, value, torch::kLong)}},
              rows);
  batch.indices.assign(static_cast<std::size_t>(rows), value);
  return batch;
}

void expect_equal(const Batch& filled, const Batch& given) {
  EXPECT_EQ(filled.units(), given.units());
  EXPECT_EQ(filled.indices, given.indices);
  for (const auto& [name, tensor] : given.tensors()) {
    EXPECT_TRUE(filled[name].is_cuda()) << name;
    EXPECT_TRUE(filled[name].is_contiguous()) << name;
    EXPECT_TRUE(filled[name].cpu().equal(tensor)) << name;
  }
}

bool is_in(const BatchBuffers& buffers, std::size_t buffer, const Batch& filled) {
  return filled["image"].is_alias_of(buffers.buffers().at(buffer).at("image"));
}

TEST(BatchBuffers, ConsecutiveBatchesOfAnySizeUseDifferentBuffers) {
  NEEDS_GPU();
  BatchBuffers buffers(numbered(0), kGpu);
  std::size_t buffer = 1;
  for (const std::int64_t rows : {4, 4, 1, 3, 4}) {
    const Batch given = numbered(rows, rows), filled = buffers.fill(given);
    expect_equal(filled, given);
    EXPECT_TRUE(is_in(buffers, buffer, filled)) << rows;
    EXPECT_FALSE(is_in(buffers, 1 - buffer, filled)) << rows;
    buffer = 1 - buffer;
  }
}

TEST(BatchBuffers, BatchKeepsItsValuesUntilTheSecondFillAfterIt) {
  NEEDS_GPU();
  BatchBuffers buffers(numbered(0), kGpu);
  buffers.fill(numbered(1));
  const Batch second = buffers.fill(numbered(2));
  buffers.fill(numbered(3));
  expect_equal(second, numbered(2));
}

TEST(BatchBuffers, TensorThatIsStillInUseIsNotOverwritten) {
  NEEDS_GPU();
  BatchBuffers buffers(numbered(0), kGpu);
  const at::Tensor kept = buffers.fill(numbered(1))["image"];
  buffers.fill(numbered(2));
  const Batch third = buffers.fill(numbered(3));
  EXPECT_TRUE(kept.cpu().equal(numbered(1)["image"]));
  expect_equal(third, numbered(3));
}

TEST(BatchBuffers, TensorsThatDoNotFitAreCopiedToNewMemory) {
  NEEDS_GPU();
  BatchBuffers buffers(numbered(0), kGpu);
  const Batch larger = numbered(1, 9);
  const Batch of_another_type = numbered(2).with("image", torch::full({4, 3}, 2, torch::kDouble));
  const Batch with_another_input({{"tokens", torch::full({4, 7}, 3, torch::kLong)}}, 4);
  for (const Batch& given : {larger, of_another_type, with_another_input})
    expect_equal(buffers.fill(given), given);
}

TEST(BatchBuffers, NonContiguousTensorsArriveContiguous) {
  NEEDS_GPU();
  BatchBuffers buffers(numbered(0), kGpu);
  const Batch given = numbered(0).with("image", torch::rand({4, 3, 10}).slice(2, 0, 10, 2));
  expect_equal(buffers.fill(given), given);
}

TEST(BatchBuffers, NetworkMayChangeItsInputInPlace) {
  NEEDS_GPU();
  BatchBuffers buffers(numbered(0), kGpu);
  const at::Tensor scale = torch::full({1}, 2.F, at::device(kGpu)).requires_grad_();
  at::Tensor input = buffers.fill(numbered(3))["image"];
  input.mul_(scale).sum().backward();
  EXPECT_EQ(scale.grad().item<float>(), 3 * 60);
}

TEST(BatchBuffers, DryRunAllocatesTwoBuffersOnce) {
  MemoryTrace trace({.device = at::kCUDA, .model = {}});
  const auto on_meta = [](std::int64_t rows) {
    const ScopedUntraced on_the_host;
    return numbered(0, rows).to(at::kMeta);
  };
  BatchBuffers buffers(on_meta(4), at::kMeta);
  EXPECT_TRUE(trace.events().empty());
  for (const std::int64_t rows : {4, 3, 4}) {
    const Batch filled = buffers.fill(on_meta(rows));
    EXPECT_EQ(filled["image"].sizes(), at::IntArrayRef({rows, 3, 5}));
    EXPECT_TRUE(filled["image"].is_meta());
  }
  std::int64_t bytes = 0;
  for (const TracedStorage& storage : trace.storages()) bytes += storage.bytes;
  EXPECT_EQ(bytes, 2 * (4 * 3 * 5 * 4 + 4 * 8));
}

}  // namespace
}  // namespace stages
