#include "stages/evaluate/classification_metrics.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "stages/artifact/class_scores.h"
#include "stages/evaluate/classification_curves.h"

namespace stages {
namespace {

using testing::ElementsAre;

at::Tensor matrix(const std::vector<std::vector<double>>& rows) {
  const at::Tensor result = torch::empty(
      {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())},
      torch::kFloat64);
  double* values = result.data_ptr<double>();
  for (const auto& row : rows) values = std::ranges::copy(row, values).out;
  return result;
}

class ScikitLearn : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::ifstream file(RETORT_SOURCE_DIR "/tests/recorded/classification_" + GetParam() + ".json");
    recorded_ = nlohmann::json::parse(file);
    logits_ = matrix(recorded_.at("logits").get<std::vector<std::vector<double>>>());
    labels_ = torch::tensor(recorded_.at("truth").get<std::vector<std::int64_t>>());
    std::vector<std::int64_t> top_k;
    for (const auto& [k, share] : recorded_.at("topk").items()) top_k.push_back(std::stoll(k));
    metrics_ = classification_metrics(logits_, labels_, top_k);
  }

  void expect(double actual, const nlohmann::json& expected, const std::string& what) const {
    EXPECT_NEAR(actual, expected.get<double>(),
                1e-12 * std::max(1.0, std::abs(expected.get<double>())))
        << what;
  }
  void expect(const ClassQuality& actual, const nlohmann::json& expected,
              const std::string& what) const {
    expect(actual.precision, expected.at("precision"), what + " precision");
    expect(actual.recall, expected.at("recall"), what + " recall");
    expect(actual.f1, expected.at("f1"), what + " f1");
  }

  nlohmann::json recorded_;
  at::Tensor logits_, labels_;
  ClassificationMetrics metrics_;
};
INSTANTIATE_TEST_SUITE_P(Recorded, ScikitLearn,
                         testing::Values("2", "5", "absent_true", "absent_both"),
                         [](const auto& info) { return info.param; });

TEST_P(ScikitLearn, PredictionsMatch) {
  const auto expected = recorded_.at("predicted").get<std::vector<std::int64_t>>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(class_scores(logits_, static_cast<std::int64_t>(i)).predicted(), expected[i]) << i;
  }
}

TEST_P(ScikitLearn, ConfusionMatrixMatches) {
  const auto expected = recorded_.at("confusion").get<std::vector<std::vector<std::int64_t>>>();
  ASSERT_EQ(metrics_.confusion.classes(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t truth = 0; truth < expected.size(); ++truth) {
    for (std::size_t predicted = 0; predicted < expected.size(); ++predicted) {
      EXPECT_EQ(metrics_.confusion.count(static_cast<std::int64_t>(truth),
                                         static_cast<std::int64_t>(predicted)),
                expected[truth][predicted]);
    }
    EXPECT_EQ(metrics_.confusion.support(static_cast<std::int64_t>(truth)),
              recorded_.at("support").at(truth));
  }
}

TEST_P(ScikitLearn, ClassMetricsAndTheirMeansMatch) {
  for (std::size_t label = 0; label < metrics_.of_class.size(); ++label) {
    const std::string what = "class " + std::to_string(label);
    expect(metrics_.of_class[label].precision, recorded_.at("precision").at(label),
           what + " precision");
    expect(metrics_.of_class[label].recall, recorded_.at("recall").at(label), what + " recall");
    expect(metrics_.of_class[label].f1, recorded_.at("f1").at(label), what + " f1");
  }
  expect(metrics_.macro, recorded_.at("average").at("macro"), "macro");
  expect(metrics_.weighted, recorded_.at("average").at("weighted"), "weighted");
}

TEST_P(ScikitLearn, AccuraciesMatch) {
  expect(metrics_.top1, recorded_.at("accuracy"), "top1");
  expect(metrics_.mean_per_class, recorded_.at("balanced_accuracy"), "mean per class");
  expect(metrics_.log_loss, recorded_.at("log_loss"), "log loss");
  std::size_t compared = 0;
  for (const auto& [k, share] : metrics_.top_k) {
    expect(share, recorded_.at("topk").at(std::to_string(k)), "top-" + std::to_string(k));
    ++compared;
  }
  EXPECT_EQ(compared, recorded_.at("topk").size());
}

TEST_P(ScikitLearn, ReportMatches) {
  std::vector<std::string> classes;
  for (std::size_t label = 0; label < metrics_.of_class.size(); ++label)
    classes.push_back(std::to_string(label));
  const nlohmann::json report = report_dict(metrics_, classes), &expected = recorded_.at("report");
  const auto actual = report.flatten(), wanted = expected.flatten();
  ASSERT_EQ(actual.size(), wanted.size());
  for (const auto& [place, value] : wanted.items()) expect(actual.at(place), value, place);
}

TEST_P(ScikitLearn, AreasUnderTheCurvesMatch) {
  const ClassificationCurves curves = classification_curves(logits_, labels_);
  for (std::size_t label = 0; label < curves.of_class.size(); ++label) {
    const auto& wanted = recorded_.at("auc_one_vs_rest").at(std::to_string(label));
    ASSERT_EQ(curves.of_class[label].has_value(), !wanted.is_null()) << label;
    if (!wanted.is_null())
      expect(curves.of_class[label]->area, wanted, "class " + std::to_string(label));
  }
  ASSERT_TRUE(curves.macro_area);
  expect(*curves.macro_area, recorded_.at("auc_macro_over_defined"), "macro");
}

TEST_P(ScikitLearn, CalibrationErrorMatches) {
  expect(classification_curves(logits_, labels_).calibration.error, recorded_.at("ece_15"),
         "calibration");
}

TEST(ClassScores, ProbabilitiesEqualInExactArithmeticHaveEqualBits) {
  std::vector<double> logits = {-2.5, -1.375, 0.25, 0.75, 1.5, 3.125};
  const double own = logits[3];
  std::set<double> shares, logarithms;
  do {
    for (const double shift : {0.0, 1.0, -17.25}) {
      std::vector<double> shifted = logits;
      for (double& logit : shifted) logit += shift;
      const ClassScores scores(shifted);
      const auto label = std::ranges::find(logits, own) - logits.begin();
      shares.insert(scores.probability(label));
      logarithms.insert(scores.log_probability(label));
    }
  } while (std::ranges::next_permutation(logits).found);
  EXPECT_EQ(shares.size(), 1U);
  EXPECT_EQ(logarithms.size(), 1U);
}

TEST(ClassificationCurves, SamplesOfEqualProbabilityAreOneStepOfTheCurve) {
  std::vector<double> others = {-2.3, -1.1, 0.2, 0.7};
  std::vector<std::vector<double>> rows;
  std::vector<std::int64_t> labels;
  do {
    rows.push_back({0.5});
    rows.back().insert(rows.back().end(), others.begin(), others.end());
    labels.push_back(static_cast<std::int64_t>(rows.size() % 2));
  } while (std::ranges::next_permutation(others).found);
  const ClassificationCurves curves = classification_curves(matrix(rows), torch::tensor(labels));
  EXPECT_EQ(curves.of_class[0]->area, 0.5);
  EXPECT_THAT(curves.of_class[0]->false_positives, ElementsAre(0, 1));
}

TEST(EvaluationResults, LastOfTwoClassesWithTheSameNameIsReported) {
  const auto metrics = classification_metrics(matrix({{3, 0, 0}, {0, 3, 0}, {0, 3, 0}, {0, 0, 3}}),
                                              torch::tensor({0, 1, 2, 2}), {});
  const auto report = report_dict(metrics, {"cup", "bowl", "cup"});
  std::vector<std::string> keys;
  for (const auto& [key, value] : report.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("cup", "bowl", "accuracy", "macro avg", "weighted avg"));
  EXPECT_EQ(report.at("cup").at("support"), 2.0);
}

TEST(ClassScores, FirstOfEqualClassesIsPredicted) {
  const ClassScores scores({1, 3, 3, 2});
  EXPECT_EQ(scores.predicted(), 1);
  EXPECT_EQ(scores.rank(1), 0);
  EXPECT_EQ(scores.rank(2), 1);
  EXPECT_THAT(scores.best(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(scores.best(9), ElementsAre(1, 2, 3, 0));
}

TEST(ClassScores, LargeLogitsDoNotOverflow) {
  const ClassScores scores({1e4, 1e4 - 1, -1e4});
  EXPECT_NEAR(scores.probability(0), 1 / (1 + std::exp(-1.0)), 1e-12);
  EXPECT_NEAR(scores.log_probability(2), -2e4 - std::log1p(std::exp(-1.0)), 1e-8);
}

TEST(ClassificationMetrics, TopKIsOmittedUnlessThereAreMoreClasses) {
  const auto metrics =
      classification_metrics(torch::eye(3), torch::tensor({0, 1, 1}), {1, 2, 3, 5});
  ASSERT_EQ(metrics.top_k.size(), 2u);
  EXPECT_EQ(metrics.top_k[0].first, 1);
  EXPECT_EQ(metrics.top_k[1].first, 2);
}

TEST(ClassificationMetrics, SummaryHasAFixedOrder) {
  const at::Tensor logits = torch::rand({4, 7});
  std::vector<std::string> names;
  for (const auto& [name, value] :
       summary(classification_metrics(logits, torch::tensor({0, 1, 2, 3}), {1, 3, 5}))) {
    names.push_back(name);
  }
  EXPECT_THAT(names,
              ElementsAre("top1", "top3", "top5", "mean_per_class", "macro_precision",
                          "macro_recall", "macro_f1", "weighted_precision", "weighted_recall",
                          "weighted_f1", "log_loss", "top1_low", "top1_high", "chance", "samples"));
}

TEST(WilsonInterval, EndsAreOneQuantileAwayFromTheSample) {
  const double seen = 120.0 / 144;
  const Interval interval = wilson_interval(120, 144);
  EXPECT_LT(interval.low, seen);
  EXPECT_GT(interval.high, seen);
  for (const double end : {interval.low, interval.high}) {
    EXPECT_NEAR(std::abs(seen - end) / std::sqrt(end * (1 - end) / 144), 1.959963984540054, 1e-12);
  }
}

TEST(WilsonInterval, StaysWithinZeroAndOne) {
  const double widest =
      3.841458820694124 /
      (10 + 3.841458820694124);  // the square of the quantile is the quantile of chi-squared
  EXPECT_NEAR(wilson_interval(0, 10).low, 0, 1e-15);
  EXPECT_NEAR(wilson_interval(0, 10).high, widest, 1e-12);
  EXPECT_NEAR(wilson_interval(10, 10).low, 1 - widest, 1e-12);
  EXPECT_NEAR(wilson_interval(10, 10).high, 1, 1e-15);
  EXPECT_LE(wilson_interval(10, 10).high, 1);
}

ClassificationMetrics three_of_four() {
  return classification_metrics(matrix({{3, 0, 0}, {0, 3, 0}, {0, 3, 0}, {0, 0, 3}}),
                                torch::tensor({0, 1, 2, 2}), {});
}

TEST(ClassificationReport, LayoutMatchesScikitLearn) {
  EXPECT_EQ(report_text(three_of_four(), {"daisy", "rose", "tulip"}),
            "              precision    recall  f1-score   support\n"
            "\n"
            "       daisy       1.00      1.00      1.00         1\n"
            "        rose       0.50      1.00      0.67         1\n"
            "       tulip       1.00      0.50      0.67         2\n"
            "\n"
            "    accuracy                           0.75         4\n"
            "   macro avg       0.83      0.83      0.78         4\n"
            "weighted avg       0.88      0.75      0.75         4\n");
}

TEST(ClassificationReport, NamesAreAlignedByCharacterAndPrintable) {
  const std::string text =
      report_text(three_of_four(), {"Gänseblümchen", "a\nb\x1b[31m\u202e", "tulip"});
  EXPECT_THAT(text, testing::HasSubstr("\nGänseblümchen       1.00"));
  EXPECT_THAT(text, testing::HasSubstr("\n    a b [31m        0.50"));
}

TEST(ClassificationReport, HeadlineHasAConfidenceInterval) {
  const std::vector<std::int64_t> zeros(144, 0);
  at::Tensor logits = torch::zeros({144, 12});
  logits.slice(0, 120).select(1, 5).fill_(1);
  EXPECT_EQ(headline(classification_metrics(logits, torch::tensor(zeros), {})),
            "top-1 83.3% (95% interval 76.4–88.5%), mean per class 83.3%, chance 8.3%, 144 images");
}

TEST(ClassificationReport, JsonHasAllFieldsInOrder) {
  const auto json = to_json(three_of_four(), {"daisy", "rose", "tulip"});
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(
      keys, ElementsAre("samples", "classes", "top1", "top1_interval", "mean_per_class", "log_loss",
                        "chance", "macro", "weighted", "per_class", "confusion_matrix"));
  EXPECT_EQ(json.at("confusion_matrix").dump(), "[[1,0,0],[0,1,0],[0,1,1]]");
  EXPECT_EQ(
      json.at("per_class").at(2).dump(),
      R"({"class":"tulip","precision":1.0,"recall":0.5,"f1":0.6666666666666666,"support":2})");
}

TEST(ClassificationReport, MatrixIsOmittedForVeryManyClasses) {
  const at::Tensor logits = torch::zeros({1, kLargestMatrix + 1});
  const auto metrics = classification_metrics(logits, torch::tensor({0}), {});
  EXPECT_TRUE(to_json(metrics, {}).at("confusion_matrix").is_null());
}

}  // namespace
}  // namespace stages
