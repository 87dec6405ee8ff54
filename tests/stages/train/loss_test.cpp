#include "stages/train/classification_loss.h"

#include <cmath>
#include <utility>

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "tests/support/distance.h"
#include "tests/support/on_test_device.h"

namespace stages {
namespace {

TEST(Loss, CorrectCountUsesTheLargestLogit) {
  const at::Tensor logits =
      torch::tensor({{1.0, 2.0, 0.0}, {5.0, 2.0, 0.0}, {0.0, 0.0, 1.0}}, here());
  EXPECT_EQ(correct_count(logits, torch::tensor({1, 1, 2}, here())).item<std::int64_t>(), 2);
}

TEST(Loss, ClassWeightsMatchTorch) {
  const at::Tensor logits =
      torch::randn({6, 3}, at::detail::createCPUGenerator(3), torch::kDouble).to(here().device());
  const at::Tensor labels = torch::tensor({0, 1, 2, 2, 1, 0}, here()),
                   weights = torch::tensor({0.5, 2.0, 0.25}, here());
  for (const double smoothing : {0.0, 0.2}) {
    const auto options = torch::nn::functional::CrossEntropyFuncOptions()
                             .weight(weights.to(torch::kDouble))
                             .label_smoothing(smoothing);
    const at::Tensor wanted = torch::nn::functional::cross_entropy(logits, labels, options);
    const at::Tensor sum = cross_entropy_sum(logits, labels, smoothing, weights);
    EXPECT_NEAR((sum / weights.index_select(0, labels).sum()).item<double>(), wanted.item<double>(),
                1e-7);
  }
  // By hand: -(2 log 0.25 + 0.5 log 0.75).
  const at::Tensor even = torch::tensor({{0.75, 0.25}, {0.75, 0.25}}, here()).log();
  EXPECT_NEAR(
      cross_entropy_sum(even, torch::tensor({1, 0}, here()), 0, torch::tensor({0.5, 2.0}, here()))
          .item<double>(),
      -(2 * std::log(0.25) + 0.5 * std::log(0.75)), 1e-6);
}

TEST(Loss, SampleWithZeroWeightHasNoLossWithOrWithoutSmoothing) {
  const at::Tensor logits =
      torch::randn({3, 3}, at::detail::createCPUGenerator(3)).to(here().device()).requires_grad_();
  const at::Tensor weights = torch::tensor({0.0, 1.0, 2.0}, here());
  for (const double smoothing : {0.0, 0.1}) {
    const at::Tensor losses =
        cross_entropies(logits, torch::tensor({0, 1, 0}, here()), smoothing, weights);
    EXPECT_EQ(losses[0].item<double>(), 0);
    EXPECT_EQ(losses[2].item<double>(), 0);
    EXPECT_TRUE(losses[1].equal(
        cross_entropies(logits.slice(0, 1, 2), torch::tensor({1}, here()), smoothing, weights)[0]));
    const at::Tensor gradient = torch::autograd::grad({losses.sum()}, {logits})[0];
    EXPECT_EQ(gradient[0].abs().max().item<double>(), 0);
    EXPECT_GT(gradient[1].abs().max().item<double>(), 0);
  }
}

TEST(Loss, OutputsBeyondTheClassesHaveWeightOne) {
  const at::Tensor logits =
      torch::randn({2, 4}, at::detail::createCPUGenerator(3)).to(here().device());
  const at::Tensor labels = torch::tensor({1, 3}, here());
  EXPECT_TRUE(cross_entropy_sum(logits, labels, 0.1, torch::tensor({0.5, 2.0}, here()))
                  .equal(cross_entropy_sum(logits, labels, 0.1,
                                           torch::tensor({0.5, 2.0, 1.0, 1.0}, here()))));
}

at::Tensor rows(std::int64_t n, std::int64_t d, at::ScalarType type = at::kDouble) {
  return torch::randn({n, d}, at::detail::createCPUGenerator(4), type).to(here().device()) + 0.5;
}

/// Returns the value and the gradient with respect to the embeddings.
std::pair<at::Tensor, at::Tensor> value_and_gradient(const at::Tensor& embeddings,
                                                     CovarianceForm form) {
  const at::Tensor z = embeddings.detach().clone().requires_grad_();
  const at::Tensor loss = covariance_loss(z, form);
  loss.backward();
  return {loss.detach(), z.grad()};
}

TEST(CovarianceLoss, EqualsTheMeanSquaredOffDiagonalOfTorchCov) {
  const at::Tensor z = rows(7, 5);
  const at::Tensor covariance = torch::cov(z.t());
  double sum = 0;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) sum += i == j ? 0 : std::pow(covariance[i][j].item<double>(), 2);
  }
  for (const CovarianceForm form : {CovarianceForm::kDirect, CovarianceForm::kGram})
    EXPECT_NEAR(covariance_loss(z, form).item<double>(), sum / 20, 1e-14);
}

TEST(CovarianceLoss, FormsAreEqualInExactArithmetic) {
  for (const auto& [n, d] :
       {std::pair(2, 2), std::pair(25, 700), std::pair(40, 6), std::pair(16, 16)}) {
    const auto [direct, direct_gradient] = value_and_gradient(rows(n, d), CovarianceForm::kDirect);
    const auto [gram, gram_gradient] = value_and_gradient(rows(n, d), CovarianceForm::kGram);
    EXPECT_LT(distance(gram, direct), 1e-12) << n << " " << d;
    EXPECT_LT(distance(gram_gradient, direct_gradient), 1e-12) << n << " " << d;
  }
}

TEST(CovarianceLoss, MicroBatchesWouldDiffer) {
  const at::Tensor z = rows(24, 10);
  const at::Tensor whole = value_and_gradient(z, CovarianceForm::kGram).second;
  const at::Tensor parts =
      torch::cat({value_and_gradient(z.slice(0, 0, 12), CovarianceForm::kGram).second / 2,
                  value_and_gradient(z.slice(0, 12, 24), CovarianceForm::kGram).second / 2});
  EXPECT_GT(distance(parts, whole), 1e-3);
}

std::int64_t peak(const at::Tensor& z, CovarianceForm form) {
  const CountingAllocator counter;
  value_and_gradient(z, form);
  return counter.peak_bytes();
}

TEST(CovarianceLoss, DirectFormNeedsFourMatricesForAnyBatch) {
  constexpr std::int64_t kWidth = 1024, kMatrix = kWidth * kWidth * 4;
  for (const std::int64_t n : {4, 32}) {
    EXPECT_GE(peak(rows(n, kWidth, at::kFloat), CovarianceForm::kDirect), 4 * kMatrix) << n;
    EXPECT_LT(peak(rows(n, kWidth, at::kFloat), CovarianceForm::kGram), kMatrix) << n;
  }
}

TEST(CovarianceLoss, GramFormOfFlattenedEpisodeFeaturesIsSmall) {
  // 25 images with the 512 x 7 x 7 features of a ResNet-34. Their covariance alone is 2.35 GiB.
  EXPECT_LT(peak(rows(25, 25088, at::kFloat), CovarianceForm::kGram), std::int64_t{50} << 20);
}

TEST(CovarianceLoss, OneRowOrFeatureIsRejected) {
  for (const CovarianceForm form : {CovarianceForm::kDirect, CovarianceForm::kGram}) {
    EXPECT_THROW(covariance_loss(rows(1, 5), form), std::invalid_argument);
    EXPECT_THROW(covariance_loss(rows(5, 1), form), std::invalid_argument);
  }
}

}  // namespace
}  // namespace stages
