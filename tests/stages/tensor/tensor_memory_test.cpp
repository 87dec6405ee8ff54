#include "stages/tensor/tensor_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(TensorMemory, MemoryOfATensorCanBeRemovedAndRestored) {
  const at::Tensor tensor = torch::arange(6, torch::kFloat).view({2, 3}).clone();
  const at::Tensor before = tensor.clone(), same = tensor.detach();
  c10::DataPtr own = exchange_memory(tensor, part_of_memory(torch::zeros({24}, torch::kByte), 0));
  EXPECT_TRUE(tensor.eq(0).all().item<bool>());
  free_memory(tensor);
  EXPECT_FALSE(has_memory(tensor));
  EXPECT_FALSE(has_memory(same)) << "they share the storage";
  EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{2, 3}));
  exchange_memory(tensor, std::move(own));
  EXPECT_TRUE(has_memory(tensor));
  EXPECT_TRUE(tensor.equal(before));
  free_memory(tensor);
  allocate_memory(tensor);
  tensor.fill_(2);
  EXPECT_TRUE(same.eq(2).all().item<bool>());
}

TEST(TensorMemory, PartOfABufferIsSharedAndKeepsTheBufferAlive) {
  at::Tensor buffer = torch::zeros({64}, torch::kByte);
  const at::Tensor tensor = torch::ones({3}, torch::kInt);
  const at::Tensor place = buffer.narrow(0, 16, 12);
  const c10::DataPtr own = exchange_memory(tensor, part_of_memory(buffer, 16));
  place.copy_(memory_as_bytes(torch::arange(3, torch::kInt)));
  EXPECT_TRUE(tensor.equal(torch::arange(3, torch::kInt)));
  buffer.reset();
  EXPECT_TRUE(tensor.equal(torch::arange(3, torch::kInt)));
}

TEST(TensorMemory, GradientOfATensorWithoutMemoryIsAccumulated) {
  const at::Tensor weight = torch::ones({3}).requires_grad_();
  const at::Tensor sum = (weight * 2).sum();
  free_memory(weight);
  sum.backward();
  EXPECT_TRUE(weight.grad().eq(2).all().item<bool>());
}

TEST(TensorMemory, OnlyAWholeStorageIsFilled) {
  const at::Tensor whole = torch::zeros({4, 2});
  EXPECT_TRUE(fills_its_storage(whole));
  EXPECT_TRUE(fills_its_storage(whole.t()));
  EXPECT_FALSE(fills_its_storage(whole.narrow(0, 1, 2)));
  EXPECT_FALSE(fills_its_storage(whole.narrow(0, 0, 2)));
  EXPECT_FALSE(fills_its_storage(torch::zeros({1}).expand({3})));
}

TEST(TensorMemory, TensorOfADryRunCountsAsHavingMemory) {
  const at::Tensor outline = torch::empty({3}, at::kMeta);
  EXPECT_TRUE(has_memory(outline));
  free_memory(outline);
  EXPECT_FALSE(has_memory(outline));
  allocate_memory(outline);
  EXPECT_TRUE(has_memory(outline));
  EXPECT_EQ(memory_as_bytes(outline).numel(), 12);
}

}  // namespace
}  // namespace stages
