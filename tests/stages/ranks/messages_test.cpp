#include "stages/ranks/messages.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

at::Tensor tensor_of(std::int64_t bytes, at::ScalarType type = at::kFloat) {
  return torch::zeros({bytes / static_cast<std::int64_t>(c10::elementSize(type))}, type);
}

/// Returns the bytes of each message with its rank. Adds 1 to every element on the way.
std::vector<std::pair<std::int64_t, int>> sent(const std::vector<ToSend>& tensors) {
  std::vector<std::pair<std::int64_t, int>> all;
  Messages(tensors).exchange([&all](const at::Tensor& message, int rank) {
    all.emplace_back(static_cast<std::int64_t>(message.nbytes()), rank);
    message.add_(1);
  });
  for (const ToSend& one : tensors)
    EXPECT_TRUE(one.tensor.eq(1).all().item<bool>()) << one.tensor.sizes();
  return all;
}

TEST(Messages, SmallTensorsBetweenLargeOnesShareAMessage) {
  const std::int64_t large = 2 * kAloneBytes;
  EXPECT_THAT(sent({{tensor_of(large)}, {tensor_of(8)}, {tensor_of(large)}, {tensor_of(16)}}),
              testing::ElementsAre(std::pair(large, 0), std::pair(24, 0), std::pair(large, 0)));
}

TEST(Messages, TypesAndRanksHaveTheirOwnMessages) {
  EXPECT_THAT(sent({{tensor_of(8), 0},
                    {tensor_of(16, at::kDouble), 0},
                    {tensor_of(4), 1},
                    {tensor_of(12), 0},
                    {tensor_of(20), 1}}),
              testing::ElementsAre(std::pair(20, 0), std::pair(16, 0), std::pair(24, 1)));
}

TEST(Messages, MessageIsNotLargerThanTheLimit) {
  const std::int64_t each = kAloneBytes - 4, fit = kMessageBytes / each;
  std::vector<ToSend> tensors;
  for (std::int64_t i = 0; i <= fit; ++i) tensors.push_back({tensor_of(each)});
  EXPECT_THAT(sent(tensors), testing::ElementsAre(std::pair(fit * each, 0), std::pair(each, 0)));
}

TEST(Messages, LargeTensorIsSentWithoutACopyIfItIsContiguous) {
  const at::Tensor whole = tensor_of(kAloneBytes), matrix = whole.view({256, -1}).t();
  for (const at::Tensor& tensor : {whole, matrix}) {
    Messages({{tensor}}).exchange([&](const at::Tensor& message, int) {
      EXPECT_EQ(message.numel(), tensor.numel());
      EXPECT_EQ(message.is_alias_of(tensor), tensor.is_contiguous());
      EXPECT_TRUE(message.is_contiguous());
    });
  }
}

}  // namespace
}  // namespace stages
