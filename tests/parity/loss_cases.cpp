// Losses and their gradients, as torch computes them.

#include "stages/train/loss.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

/// Ends as skipped, by name, the test of a case with parts that no code here computes; the others have been compared.
void name_the_rest(const RecordedCase& recorded, const std::vector<std::string>& parts) {
  std::string rest;
  for (const std::string& part : parts) {
    if (recorded.json.contains(part)) rest += (rest.empty() ? "" : ", ") + part;
  }
  if (!rest.empty()) GTEST_SKIP() << "no code here computes " << rest;
}

void compare_multiclass(const RecordedCase& recorded) {
  const at::Tensor labels = integers_of(recorded.json.at("target"));
  const double smoothing = recorded.json.at("case").at("smoothing");
  for (const auto& [name, share] : {std::pair("ce", 0.0), std::pair("ce_smoothed", smoothing)}) {
    const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
    const at::Tensor loss = cross_entropy_sum(logits, labels, share) / labels.size(0);
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(logits.grad(), tensor_of(recorded.json.at(name).at("grad_logits")), name);
  }
  const at::Tensor weights = tensor_of(recorded.json.at("class_weight"));
  const double divisor =
      weights.index_select(0, labels).sum().item<double>();  // as torch's mean is, of weighted samples
  for (const auto& [name, share] : {std::pair("ce_weighted", 0.0), std::pair("ce_weighted_smoothed", smoothing)}) {
    const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
    const at::Tensor loss = cross_entropy_sum(logits, labels, share, weights) / divisor;
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(logits.grad(), tensor_of(recorded.json.at(name).at("grad_logits")), name);
  }
  name_the_rest(recorded, {"focal"});
}

/// The covariance of all features of an episode, in both forms.
void compare_variance_and_covariance(const RecordedCase& recorded) {
  for (const auto& [name, form] :
       {std::pair("covariance_direct", CovarianceForm::kDirect), std::pair("covariance_gram", CovarianceForm::kGram)}) {
    const at::Tensor z = tensor_of(recorded.json.at("z")).requires_grad_();
    const at::Tensor loss = covariance_loss(z.flatten(0, 1), form);
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(z.grad(), tensor_of(recorded.json.at(name).at("grad_z")), name);
  }
  name_the_rest(recorded, {"variance_unbiased", "variance_biased"});
}

}  // namespace

std::vector<CaseKind> loss_cases() {
  return {number_kind("Losses", "multiclass", compare_multiclass),
          number_kind("Covariances", "vic", compare_variance_and_covariance)};
}
