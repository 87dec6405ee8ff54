#include "stages/train/ordinal_loss.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/on_test_device.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using ClassNames = std::vector<std::string>;

const OrdinalLoss kCoralLoss{.head = OrdinalHead::kCoral}, kCornLoss{.head = OrdinalHead::kCorn};

double entropy(double logit, bool is_above) {
  return std::log1p(std::exp(is_above ? -logit : logit));
}

DatasetDescription data_with(ClassNames classes) { return {.classes = std::move(classes)}; }

at::Tensor three_outputs() {
  return torch::tensor({{0.5, -1.0, 2.0}, {1.5, 0.25, -0.5}}, here().dtype(at::kDouble));
}

TEST(OrdinalLoss, CoralSumsOneDecisionPerThreshold) {
  const at::Tensor labels = torch::tensor({1, 3}, here());
  const double wanted = entropy(0.5, true) + entropy(-1, false) + entropy(2, false) +
                        entropy(1.5, true) + entropy(0.25, true) + entropy(-0.5, true);
  EXPECT_NEAR(ordinal_loss_sum(three_outputs(), labels, OrdinalHead::kCoral).item<double>(), wanted,
              1e-14);
  EXPECT_EQ(ordinal_weight(labels, 4, OrdinalHead::kCoral), 2);
}

TEST(OrdinalLoss, ImportanceWeightsApplyToOutputs) {
  const at::Tensor labels = torch::tensor({1, 3}, here());
  OrdinalLoss loss = kCoralLoss;
  loss.importance_weights = {2, 0, 1};
  const double wanted =
      2 * entropy(0.5, true) + entropy(2, false) + 2 * entropy(1.5, true) + entropy(-0.5, true);
  EXPECT_NEAR(ordinal_loss_sum(three_outputs(), labels, loss.head,
                               importance_weights_of(loss).to(labels.device()))
                  .item<double>(),
              wanted, 1e-14);
}

TEST(OrdinalLoss, CornTrainsEachOutputOnTheSamplesThatReachIt) {
  const at::Tensor labels = torch::tensor({1, 3}, here());
  const double wanted = entropy(0.5, true) + entropy(-1, false) + entropy(1.5, true) +
                        entropy(0.25, true) + entropy(-0.5, true);
  EXPECT_NEAR(ordinal_loss_sum(three_outputs(), labels, OrdinalHead::kCorn).item<double>(), wanted,
              1e-14);
  EXPECT_EQ(ordinal_weight(labels, 4, OrdinalHead::kCorn), 2 + 3);
}

// Sums and weights are additive, so the loss of a batch does not depend on its micro-batches.
TEST(OrdinalLoss, MicroBatchesAddUpToTheBatch) {
  const at::Tensor outputs = torch::randn({7, 3}, here().dtype(at::kDouble)),
                   labels = torch::tensor({0, 3, 1, 0, 2, 3, 1}, here());
  for (const OrdinalLoss& loss : {kCoralLoss, kCornLoss}) {
    double sum = 0, weight = 0;
    for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 7)}) {
      sum += ordinal_loss_sum(outputs.slice(0, begin, end), labels.slice(0, begin, end), loss.head)
                 .item<double>();
      weight += ordinal_weight(labels.slice(0, begin, end), 4, loss.head);
    }
    EXPECT_NEAR(sum, ordinal_loss_sum(outputs, labels, loss.head).item<double>(), 1e-13);
    EXPECT_EQ(weight, ordinal_weight(labels, 4, loss.head));
  }
}

TEST(OrdinalLoss, CertainOutputsHaveFiniteGradients) {
  const at::Tensor outputs = torch::full({1, 3}, 200.0F, here()).requires_grad_();
  ordinal_loss_sum(outputs, torch::tensor({1}, here()), OrdinalHead::kCorn).backward();
  EXPECT_TRUE(outputs.grad().isfinite().all().item<bool>());
}

TEST(OrdinalLoss, NumbersInTheClassNamesDetermineTheOrder) {
  for (const ClassNames& names :
       {ClassNames{"0", "1", "2"}, ClassNames{"1", "2"}, ClassNames{"00", "01", "02"},
        ClassNames{"0_none", "1 mild", "2-severe"}})
    EXPECT_NO_THROW(check_order(kCornLoss, data_with(names))) << names[0];
}

TEST(OrdinalLoss, DataMayDeclareTheOrder) {
  DatasetDescription grades = data_with({"No DR", "Mild NPDR", "PDR"});
  EXPECT_REFUSED(check_order(kCornLoss, grades), kOptionConflict, "/loss/order", "'No DR'");
  grades.has_order = true;
  EXPECT_NO_THROW(check_order(kCornLoss, grades));
}

TEST(OrdinalLoss, UnknownOrderIsRejected) {
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"mild", "none"})), kOptionConflict,
                 "/loss/order", "'mild'", "loss.order");
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"0", "1.5"})), kOptionConflict, "/loss/order",
                 "'1.5'");
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"1st", "2nd"})), kOptionConflict, "/loss/order",
                 "'1st'");
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"0", "1", "10", "2"})), kOptionConflict,
                 "/loss/order", "'1' and '10'");
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"10", "11", "9"})), kOptionConflict,
                 "/loss/order", "'11' and '9'", "ascending");
}

TEST(OrdinalLoss, GapIsRejectedUnlessTheClassesAreListed) {
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"0", "1", "3"})), kOptionConflict, "/loss/order",
                 "no class between '1' and '3'");
  OrdinalLoss listed = kCornLoss;
  listed.order = {"0", "1", "3"};
  EXPECT_NO_THROW(check_order(listed, data_with({"0", "1", "3"})));
}

TEST(OrdinalLoss, ListedOrderMustMatchTheData) {
  OrdinalLoss listed = kCoralLoss;
  listed.order = {"none", "mild", "severe"};
  EXPECT_NO_THROW(check_order(listed, data_with({"none", "mild", "severe"})));
  EXPECT_REFUSED(check_order(listed, data_with({"mild", "none", "severe"})), kOptionConflict,
                 "/loss/order", "a different order", "0_none");
  EXPECT_REFUSED(check_order(listed, data_with({"none", "mild"})), kOptionConflict, "/loss/order",
                 "'severe'");
  EXPECT_REFUSED(check_order(listed, data_with({"none", "mild", "severe", "worst"})),
                 kOptionConflict, "/loss/order", "lacks the class 'worst'");
  listed.order = {"none", "none", "mild"};
  EXPECT_REFUSED(check_order(listed, data_with({"none", "mild"})), kOptionConflict, "/loss/order",
                 "twice");
}

TEST(OrdinalLoss, ImportanceWeightsMustMatchTheOutputs) {
  OrdinalLoss loss = kCoralLoss;
  loss.importance_weights = {1, 1, 1};
  EXPECT_REFUSED(check_order(loss, data_with({"0", "1", "2"})), kOptionConflict,
                 "/loss/importance_weights", "3 numbers", "2 outputs");
  loss.importance_weights = {0, 0};
  EXPECT_REFUSED(check_order(loss, data_with({"0", "1", "2"})), kOptionConflict,
                 "/loss/importance_weights", "all 0");
}

TEST(OrdinalLoss, SingleClassIsRejected) {
  EXPECT_REFUSED(check_order(kCornLoss, data_with({"0"})), kOptionConflict, "/loss", "two or more");
}

}  // namespace
}  // namespace stages
