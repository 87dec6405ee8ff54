// Softmax regression, compared with scikit-learn's LogisticRegression.

#include "stages/train/softmax_fit.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

double number_of(const RecordedCase& recorded, const char* name) { return recorded.json.at(name); }

// The objective is strongly convex in the weights, with the modulus lambda / n. For two points x
// and y with gradients g and h,
//
//   lambda / n · |W_x - W_y|² <= (g - h) · (x - y)
//
// So the remaining gradients bound the distance between two solutions.
void compare_logistic(const RecordedCase& recorded) {
  const at::Tensor features = tensor_of(recorded.json.at("features")),
                   labels = integers_of(recorded.json.at("labels"));
  Arguments arguments(recorded, "LogisticRegression");
  const double strength = recorded.json.at("case").at("strength");
  EXPECT_EQ(1 / arguments.get<double>("C"), strength);
  const double tolerance = arguments.get<double>("tol");
  const SoftmaxFit fit = fit_softmax(features, labels,
                                     {.classes = recorded.json.at("case").at("classes"),
                                      .l2_strength = strength,
                                      .max_iterations = arguments.get<std::int64_t>("max_iter"),
                                      .tolerance = tolerance});
  EXPECT_LE(fit.largest_gradient, tolerance);
  const at::Tensor weight = tensor_of(recorded.json.at("weight")),
                   bias = tensor_of(recorded.json.at("bias"));
  const double own = tolerance * std::sqrt(static_cast<double>(weight.numel() + bias.numel())),
               by_weight = own + number_of(recorded, "gradient_norm"),
               by_bias = own + number_of(recorded, "bias_gradient_norm");
  const double of_bias = (fit.bias - bias).norm().item<double>(),
               convexity = strength / static_cast<double>(features.size(0));
  const double most = by_weight / convexity + std::sqrt(by_bias * of_bias / convexity);
  const double apart = (fit.weight - weight).norm().item<double>();
  EXPECT_LE(apart, most);
  constexpr double kRounding = 1e-14;
  EXPECT_NEAR(fit.loss, number_of(recorded, "loss"),
              by_weight * apart + by_bias * of_bias + kRounding);
  // The remaining gradients must be small, or the comparison is meaningless.
  EXPECT_LT(most, 1e-2 * weight.norm().item<double>());
}

}  // namespace

std::vector<CaseKind> logistic_cases() {
  return {number_kind("LogisticRegressions", "logistic_regression", compare_logistic)};
}
