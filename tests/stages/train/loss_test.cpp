#include "stages/train/loss.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "tests/support/shared_data.h"

namespace stages {
namespace {

TEST(Loss, CrossEntropyIsTorchsWithAndWithoutSmoothing) {
  const auto path = shared_data("cases/parity/losses/multiclass.json");
  RETORT_NEEDS_SHARED(path);
  const auto recorded = nlohmann::json::parse(std::ifstream(path));
  const auto rows = recorded["logits"].get<std::vector<std::vector<double>>>();
  const auto labels = torch::tensor(recorded["target"].get<std::vector<std::int64_t>>());
  const auto n = static_cast<std::int64_t>(rows.size());
  const auto matrix = [](const std::vector<std::vector<double>>& values) {
    std::vector<at::Tensor> parts;
    for (const auto& row : values) parts.push_back(torch::tensor(row, torch::kDouble));
    return torch::stack(parts);
  };
  for (const auto& [name, smoothing] :
       {std::pair("ce", 0.0), std::pair("ce_smoothed", recorded["case"]["smoothing"].get<double>())}) {
    const at::Tensor logits = matrix(rows).requires_grad_();
    const at::Tensor loss = cross_entropy_sum(logits, labels, smoothing) / n;
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), recorded[name]["loss"].get<double>(), 1e-12) << name;
    const auto expected = matrix(recorded[name]["grad_logits"].get<std::vector<std::vector<double>>>());
    EXPECT_LT((logits.grad() - expected).abs().max().item<double>(), 1e-12) << name;
  }
}

TEST(Loss, CorrectCountTakesTheLargestLogit) {
  const at::Tensor logits = torch::tensor({{1.0, 2.0, 0.0}, {5.0, 2.0, 0.0}, {0.0, 0.0, 1.0}});
  EXPECT_EQ(correct_count(logits, torch::tensor({1, 1, 2})).item<std::int64_t>(), 2);
}

}  // namespace
}  // namespace stages
