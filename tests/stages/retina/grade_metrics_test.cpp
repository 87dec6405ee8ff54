#include "stages/retina/grade_metrics.h"

#include <map>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

/// Grades that are correct four times out of five, ranked by confidence.
GradedSamples some_grades(std::int64_t size = 200) {
  GradedSamples samples{.grades = {"mild", "moderate", "severe"}};
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t label = i % 3, predicted = i % 5 == 0 ? (label + 1) % 3 : label;
    samples.labels.push_back(label);
    samples.predicted.push_back(predicted);
    for (std::int64_t grade = 0; grade < 3; ++grade)
      samples.scores.push_back(grade == predicted ? 0.8 : 0.1);
  }
  return samples;
}

std::map<std::string, double> numbers(const Grading& grading) {
  return {grading.numbers.begin(), grading.numbers.end()};
}

TEST(GradeMetrics, AreaOfAGradeUsesItsScores) {
  GradedSamples samples{.grades = {"no", "yes"}, .labels = {0, 0, 1, 1}, .predicted = {0, 0, 1, 1}};
  samples.scores = {0.9, 0.1, 0.6, 0.4, 0.65, 0.35, 0.2, 0.8};
  const auto area = numbers(grade(samples, {}, 1));
  EXPECT_DOUBLE_EQ(area.at("auc/no"), 0.75);
  EXPECT_DOUBLE_EQ(area.at("auc/yes"), 0.75);
  EXPECT_DOUBLE_EQ(area.at("auc_weighted"), 0.75);
}

TEST(GradeMetrics, IntervalsDependOnTheSeed) {
  const GradedSamples samples = some_grades();
  const GradingOptions options{.referable_from = 2, .bootstrap = 200};
  const Grading one = grade(samples, options, 7), same = grade(samples, options, 7),
                other = grade(samples, options, 8);
  for (const auto& [name, value] : one.numbers) {
    const auto& [low, high] = one.intervals.at(name);
    EXPECT_LE(low, value) << name;
    EXPECT_GE(high, value) << name;
    EXPECT_EQ(low, same.intervals.at(name).low) << name;
    EXPECT_EQ(high, same.intervals.at(name).high) << name;
  }
  EXPECT_NE(one.intervals.at("quadratic_kappa").low, other.intervals.at("quadratic_kappa").low);
  EXPECT_EQ(numbers(one), numbers(other));
}

// For a proportion, the percentiles of the draws are close to the quantiles of the binomial
// distribution.
TEST(GradeMetrics, AccuracyIntervalMatchesTheBinomialInterval) {
  const Grading grading = grade(some_grades(400), {.bootstrap = 2000}, 3);
  const auto& [low, high] = grading.intervals.at("accuracy");
  EXPECT_NEAR(low, 0.8 - 1.96 * 0.02, 0.005);
  EXPECT_NEAR(high, 0.8 + 1.96 * 0.02, 0.005);
}

TEST(GradeMetrics, IntervalsAreOmittedWithoutResampling) {
  const Grading grading = grade(some_grades(), {}, 7);
  EXPECT_TRUE(grading.intervals.empty());
  EXPECT_FALSE(to_json(grading, {}).contains("intervals"));
}

TEST(GradeMetrics, RecordShowsWhetherTheTargetIsReached) {
  const Grading grading = grade(some_grades(), {}, 7);
  const auto json = [&](double target) {
    return to_json(grading, {.target_accuracy = target}).at("target_accuracy");
  };
  EXPECT_EQ(json(0.8).at("reached"), true);
  EXPECT_EQ(json(0.81).at("reached"), false);
  EXPECT_EQ(json(0.81).at("target"), 0.81);
  EXPECT_FALSE(to_json(grading, {}).contains("target_accuracy"));
}

TEST(GradeMetrics, HeadlineHasKappaSensitivityAndSpecificity) {
  GradedSamples samples{
      .grades = {"0", "1", "2"}, .labels = {0, 1, 2, 2}, .predicted = {0, 1, 2, 1}};
  samples.scores.assign(12, 0.3);
  EXPECT_EQ(headline(grade(samples, {.referable_from = 2}, 1)),
            "quadratic kappa 0.8000, mean absolute error 0.2500, referable: 50.0% sensitivity, "
            "100.0% specificity");
  EXPECT_EQ(headline(grade(samples, {}, 1)), "quadratic kappa 0.8000, mean absolute error 0.2500");
  samples = {.grades = {"0", "1"}, .labels = {1}, .predicted = {1}, .scores = {0, 1}};
  EXPECT_EQ(headline(grade(samples, {.bootstrap = 5}, 1)),
            "quadratic kappa not defined, mean absolute error 0.0000 (95% interval "
            "0.0000–0.0000)");
}

}  // namespace
}  // namespace stages
