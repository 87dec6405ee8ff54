#include "stages/contrastive/sigmoid_loss.h"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/numerics/precision_map.h"
#include "tests/support/contrastive_formula.h"

namespace stages {
namespace {

struct Arguments {
  at::Tensor images, texts, scale, bias;
};

Arguments arguments(double scale, double bias) {
  return {unit_rows(13, 6, 1), unit_rows(13, 6, 2), torch::tensor(scale, at::kDouble),
          torch::tensor(bias, at::kDouble)};
}

const PairGroups& classes() {
  static const PairGroups groups{
      torch::tensor(std::vector<std::int64_t>{0, 1, 2, 0, 4, 1, 4, 0, 3, 3, 0, 2, 4}), 5};
  return groups;
}

/// Returns loss(leaves) and its gradients with respect to images, texts, scale and bias.
template <typename Loss>
std::vector<at::Tensor> derived(const Arguments& of, const Loss& loss) {
  const Arguments leaves{of.images.detach().requires_grad_(), of.texts.detach().requires_grad_(),
                         of.scale.detach().requires_grad_(), of.bias.detach().requires_grad_()};
  const at::Tensor value = loss(leaves);
  value.backward();
  return {value.detach(), leaves.images.grad(), leaves.texts.grad(), leaves.scale.grad(),
          leaves.bias.grad()};
}

/// The loss as in algorithm 1 of the paper, on all logits at once.
std::vector<at::Tensor> sigmoid_as_written(const Arguments& of, const PairGroups& groups) {
  return derived(of, [&](const Arguments& x) {
    const at::Tensor logits = x.images.mm(x.texts.t()) * x.scale.exp() + x.bias;
    at::Tensor labels = 2 * torch::eye(logits.size(0), at::kDouble) - 1;
    if (groups.of_pair.defined())
      labels = 2 * groups.of_pair.unsqueeze(0).eq(groups.of_pair.unsqueeze(1)).to(at::kDouble) - 1;
    return -torch::log_sigmoid(labels * logits).sum() / logits.size(0);
  });
}

std::vector<at::Tensor> sigmoid_in_tiles(const Arguments& of, const PairGroups& groups,
                                         std::int64_t tile) {
  return derived(of, [&](const Arguments& x) {
    return sigmoid_loss(x.images, x.texts, x.scale, x.bias, groups, tile);
  });
}

TEST(SigmoidLoss, MatchesTheFormulaForEveryTile) {
  const Arguments of = arguments(2.3026, -10);
  for (const PairGroups& groups : {PairGroups{}, classes()}) {
    const auto expected = sigmoid_as_written(of, groups);
    for (const std::int64_t tile : {1, 4, 13, 100})
      expect_equal(sigmoid_in_tiles(of, groups, tile), expected);
  }
}

TEST(SigmoidLoss, EqualsTheCrossEntropyOfASinglePair) {
  const at::Tensor x = torch::tensor({{1.0}}, at::kDouble);
  const double loss =
      sigmoid_loss(x, x, torch::zeros({}, at::kDouble), torch::tensor(1.0, at::kDouble), {}, 4)
          .item<double>();
  EXPECT_DOUBLE_EQ(loss, std::log1p(std::exp(-2.0)));  // the logit is e⁰ · 1 + 1
}

TEST(SigmoidLoss, LargeFactorsDoNotOverflow) {
  const at::Tensor x = unit_rows(5, 4, 3);
  const Arguments of{x, -x, torch::tensor(8.0, at::kDouble), torch::tensor(-10.0, at::kDouble)};
  const auto actual = sigmoid_in_tiles(of, {}, 2);
  for (const at::Tensor& one : actual) EXPECT_TRUE(one.isfinite().all().item<bool>());
  expect_equal(actual, sigmoid_as_written(of, {}));
}

TEST(SigmoidLoss, IsComputedInFloat32UnderAutocast) {
  const at::Tensor images = unit_rows(9, 8, 4).to(at::kFloat),
                   texts = unit_rows(9, 8, 5).to(at::kFloat);
  const at::Tensor scale = torch::tensor(2.3026f), bias = torch::tensor(-10.0f);
  const double expected = sigmoid_loss(images, texts, scale, bias, {}, 4).item<double>();
  const ScopedPrecision half(Precision::kBf16, at::kCPU);
  const at::Tensor actual = sigmoid_loss(images, texts, scale, bias, {}, 4);
  EXPECT_EQ(actual.scalar_type(), at::kFloat);
  EXPECT_EQ(actual.item<double>(), expected);
}

}  // namespace
}  // namespace stages
