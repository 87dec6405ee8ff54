#include "stages/train/loss.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace stages {
namespace {

TEST(Loss, CorrectCountTakesTheLargestLogit) {
  const at::Tensor logits = torch::tensor({{1.0, 2.0, 0.0}, {5.0, 2.0, 0.0}, {0.0, 0.0, 1.0}});
  EXPECT_EQ(correct_count(logits, torch::tensor({1, 1, 2})).item<std::int64_t>(), 2);
}

}  // namespace
}  // namespace stages
