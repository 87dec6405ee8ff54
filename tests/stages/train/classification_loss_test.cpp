#include "stages/train/classification_loss.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"

namespace stages {
namespace {

at::Tensor numbers(std::vector<double> values) {
  return torch::tensor(values, here().dtype(at::kDouble));
}
at::Tensor labels(std::vector<std::int64_t> values) { return torch::tensor(values, here()); }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ClassificationLoss, FocalFactorUsesTheCorrectClass) {
  const ClassificationLoss loss{FocalFactor{2.5, 3}, 0.1};
  const double p = logistic(0.7);
  const double right = -(0.95 * std::log(p) + 0.05 * std::log(1 - p)) * 2.5 * std::pow(1 - p, 3);
  const double wrong = -(0.05 * std::log(p) + 0.95 * std::log(1 - p)) * 2.5 * std::pow(p, 3);
  EXPECT_NEAR(pair_loss_sum(numbers({0.7}), labels({1}), loss).item<double>(), right, 1e-12);
  EXPECT_NEAR(pair_loss_sum(numbers({0.7}), labels({0}), loss).item<double>(), wrong, 1e-12);
}

// One logit is the difference of two.
TEST(ClassificationLoss, PairLossEqualsTheTwoClassLoss) {
  const at::Tensor one = numbers({0.7, -2.1, 0.3, 4.0}), truth = labels({1, 0, 0, 1}),
                   weights = numbers({0.5, 2});
  const at::Tensor two = torch::stack({torch::zeros_like(one), one}, 1);
  for (const ClassificationLoss& loss :
       {ClassificationLoss{}, {std::nullopt, 0.2}, {FocalFactor{2, 1.5}, 0.0}}) {
    EXPECT_NEAR(pair_loss_sum(one, truth, loss).item<double>(),
                classification_loss_sum(two, truth, loss).item<double>(), 1e-12);
  }
  EXPECT_NEAR(pair_loss_sum(one, truth, {}, weights).item<double>(),
              classification_loss_sum(two, truth, {}, weights).item<double>(), 1e-12);
}

TEST(ClassificationLoss, CrossEntropyGivesTheSameBits) {
  const at::Tensor logits = torch::randn({7, 4}, here()), truth = labels({0, 1, 2, 3, 0, 1, 2});
  EXPECT_TRUE(classification_loss_sum(logits, truth, {std::nullopt, 0.1})
                  .equal(cross_entropy_sum(logits, truth, 0.1)));
  const at::Tensor partners = labels({1, 1, 0, 2, 3, 1, 0}), share = torch::rand({7}, here());
  EXPECT_TRUE(mixed_classification_loss_sum(logits, truth, partners, share, {})
                  .equal(mixed_cross_entropy_sum(logits, truth, partners, share, 0)));
}

TEST(ClassificationLoss, MixedLossIsTheWeightedSumOfBothLosses) {
  const ClassificationLoss focal{FocalFactor{2, 2}, 0};
  const at::Tensor logits = torch::tensor({{0.3, -0.8, 1.2}}, here().dtype(at::kDouble));
  const double first = classification_loss_sum(logits, labels({0}), focal).item<double>(),
               second = classification_loss_sum(logits, labels({2}), focal).item<double>();
  const double mixed =
      mixed_classification_loss_sum(logits, labels({0}), labels({2}), numbers({0.25}), focal)
          .item<double>();
  EXPECT_NEAR(mixed, 0.25 * first + 0.75 * second, 1e-12);
}

TEST(ClassificationLoss, GradientIsFiniteForCertainPredictions) {
  for (const double gamma : {0.0, 0.5, 3.0}) {
    const ClassificationLoss focal{FocalFactor{2, gamma}, 0};
    const at::Tensor one = torch::tensor({200.0F, -200.0F, 200.0F}, here()).requires_grad_();
    pair_loss_sum(one, labels({1, 0, 0}), focal).backward();
    EXPECT_TRUE(one.grad().isfinite().all().item<bool>()) << gamma;
    const at::Tensor several =
        torch::tensor({{200.0F, 0.0F, -200.0F}, {0.0F, 200.0F, 0.0F}}, here()).requires_grad_();
    classification_loss_sum(several, labels({0, 0}), focal).backward();
    EXPECT_TRUE(several.grad().isfinite().all().item<bool>()) << gamma;
  }
}

}  // namespace
}  // namespace stages
