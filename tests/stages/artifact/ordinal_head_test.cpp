#include "stages/artifact/ordinal_head.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

at::Tensor output_rows(std::vector<double> numbers, std::int64_t width) {
  return torch::tensor(numbers, at::kDouble).view({-1, width});
}

/// The softmax of the class logits.
at::Tensor probabilities(const at::Tensor& outputs, OrdinalHead head) {
  return class_logits(outputs, head).softmax(1);
}

TEST(OrdinalHead, CoralProbabilitiesAreDifferencesOfSigmoids) {
  const at::Tensor outputs = output_rows({2, 0.5, -1}, 3), above = outputs.sigmoid();
  const at::Tensor wanted =
      torch::cat({1 - above.narrow(1, 0, 1), above.narrow(1, 0, 2) - above.narrow(1, 1, 2),
                  above.narrow(1, 2, 1)},
                 1);
  EXPECT_TRUE(torch::allclose(probabilities(outputs, OrdinalHead::kCoral), wanted, 1e-14, 0));
}

TEST(OrdinalHead, CornProbabilitiesAreProductsOfSigmoids) {
  const at::Tensor outputs = output_rows({2, 0.5, -1}, 3), each = outputs.sigmoid();
  const double a = each[0][0].item<double>(), b = each[0][1].item<double>(),
               c = each[0][2].item<double>();
  const at::Tensor wanted = output_rows({1 - a, a * (1 - b), a * b * (1 - c), a * b * c}, 4);
  EXPECT_TRUE(torch::allclose(probabilities(outputs, OrdinalHead::kCorn), wanted, 1e-14, 0));
}

// The biases of an untrained head need not be in order.
TEST(OrdinalHead, CoralProbabilitiesAreNeverNegative) {
  const at::Tensor outputs = output_rows({-1, 2, 0.5, 0.5, 0.5, 0.5}, 3);
  const at::Tensor found = probabilities(outputs, OrdinalHead::kCoral);
  EXPECT_TRUE(found.ge(0).all().item<bool>());
  EXPECT_TRUE(torch::allclose(found.sum(1), torch::ones({2}, at::kDouble), 1e-14, 0));
  EXPECT_TRUE(found[0].equal(probabilities(output_rows({2, 0.5, -1}, 3), OrdinalHead::kCoral)[0]));
  EXPECT_LT(found[1][1].item<double>(), 1e-30);
}

TEST(OrdinalHead, PredictsTheNumberOfClassesThatAreProbablyExceeded) {
  const at::Tensor outputs = output_rows({3, 1, -1, -1, 2, 0.5, 1, 1, 1}, 3);
  EXPECT_TRUE(predicted_ranks(outputs, OrdinalHead::kCoral).equal(torch::tensor({2, 2, 3})));
  // P(class > k) per row: 0.953, 0.697, 0.187; 0.269, …; 0.731, 0.534, 0.391.
  EXPECT_TRUE(predicted_ranks(outputs, OrdinalHead::kCorn).equal(torch::tensor({2, 0, 2})));
  EXPECT_TRUE(predicted_ranks(outputs, OrdinalHead::kNone).equal(torch::tensor({0, 1, 0})));
}

TEST(OrdinalHead, TwoClassesHaveOneOutput) {
  const at::Tensor outputs = output_rows({0.7, -2}, 1), second = outputs.sigmoid();
  for (const OrdinalHead head : {OrdinalHead::kCoral, OrdinalHead::kCorn}) {
    EXPECT_TRUE(torch::allclose(probabilities(outputs, head), torch::cat({1 - second, second}, 1),
                                1e-14, 0));
    EXPECT_TRUE(predicted_ranks(outputs, head).equal(torch::tensor({1, 0})));
  }
}

TEST(OrdinalHead, ExtremeOutputsHaveFiniteLogits) {
  const at::Tensor outputs = torch::tensor({{900.0F, -900.0F, -900.0F}, {80.0F, 80.0F, 79.0F}});
  for (const OrdinalHead head : {OrdinalHead::kCoral, OrdinalHead::kCorn})
    EXPECT_TRUE(class_logits(outputs, head).isfinite().all().item<bool>());
}

TEST(OrdinalHead, NonFiniteOutputsArePropagated) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double broken : {kInfinity, -kInfinity, std::nan("")}) {
    const at::Tensor outputs = output_rows({broken, 0, 0, 1, 0, -1}, 3);
    for (const OrdinalHead head : {OrdinalHead::kCoral, OrdinalHead::kCorn}) {
      const at::Tensor found = class_logits(outputs, head);
      EXPECT_TRUE(found[0].isnan().all().item<bool>());
      EXPECT_TRUE(found[1].isfinite().all().item<bool>());
    }
  }
}

TEST(OrdinalHead, HalfPrecisionOutputsBecomeFloat32) {
  const at::Tensor outputs = torch::zeros({2, 3}, at::kHalf);
  EXPECT_EQ(class_logits(outputs, OrdinalHead::kCorn).scalar_type(), at::kFloat);
  EXPECT_EQ(class_logits(outputs, OrdinalHead::kNone).scalar_type(), at::kHalf);
}

}  // namespace
}  // namespace stages
