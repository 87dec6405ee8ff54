#include "stages/retina/grade_metrics.h"

#include <map>

#include <gtest/gtest.h>

namespace stages {
namespace {

GradeCounts counts(const std::vector<std::vector<std::int64_t>>& rows) {
  GradeCounts counts(std::ssize(rows));
  for (std::int64_t truth = 0; truth < std::ssize(rows); ++truth) {
    for (std::int64_t predicted = 0; predicted < std::ssize(rows); ++predicted)
      counts.add(truth, predicted,
                 rows[static_cast<std::size_t>(truth)][static_cast<std::size_t>(predicted)]);
  }
  return counts;
}

/// The confusion matrix of the published ensemble on 8,095 images, and its published metrics.
GradeCounts published() {
  return counts({{1619, 0, 0, 0, 0},
                 {12, 1375, 232, 0, 0},
                 {0, 26, 1554, 39, 0},
                 {0, 3, 37, 1559, 20},
                 {0, 0, 0, 1, 1618}});
}

TEST(GradeCounts, PublishedMatrixHasThePublishedKappaAndSpecificity) {
  EXPECT_EQ(published().samples(), 8095);
  EXPECT_NEAR(*quadratic_kappa(published()), 0.9883, 5e-5);
  EXPECT_NEAR(*quality_of_grade(published(), 2).specificity, 0.9585, 5e-5);
  const std::vector<double> recalls = {1.0, 0.8493, 0.9599, 0.9629, 0.9994},
                            specificities = {0.998, 0.996, 0.959, 0.994, 0.997};
  for (std::int64_t grade = 0; grade < 5; ++grade) {
    const DecisionQuality quality = quality_of_grade(published(), grade);
    EXPECT_NEAR(*quality.sensitivity, recalls[static_cast<std::size_t>(grade)], 5e-5) << grade;
    EXPECT_NEAR(*quality.specificity, specificities[static_cast<std::size_t>(grade)], 1e-3)
        << grade;
  }
}

TEST(GradeCounts, PublishedMatrixHasThePublishedMeans) {
  const NamedNumbers listed = grade_numbers(published(), {"0", "1", "2", "3", "4"}, 2);
  const std::map<std::string, double> numbers(listed.begin(), listed.end());
  EXPECT_NEAR(numbers.at("accuracy"), 0.9543, 5e-5);
  EXPECT_NEAR(numbers.at("weighted_precision"), 0.9574, 5e-5);
  EXPECT_NEAR(numbers.at("weighted_recall"), 0.9543, 5e-5);
  EXPECT_NEAR(numbers.at("weighted_f1"), 0.9543, 5e-5);
  EXPECT_NEAR(numbers.at("referable_sensitivity"), 1 - 29.0 / 4857, 1e-12);
  EXPECT_NEAR(numbers.at("referable_specificity"), 1 - 232.0 / 3238, 1e-12);
  EXPECT_EQ(numbers.at("sensitivity/4"), 1618.0 / 1619);
}

TEST(GradeCounts, ReferralIgnoresTheExactGrade) {
  const GradeCounts mixed = counts({{5, 1, 2}, {0, 4, 0}, {1, 3, 6}});
  EXPECT_DOUBLE_EQ(*quality_of_referral(mixed, 1).sensitivity, 13.0 / 14);
  EXPECT_DOUBLE_EQ(*quality_of_referral(mixed, 1).specificity, 5.0 / 8);
  EXPECT_DOUBLE_EQ(*quality_of_referral(mixed, 2).sensitivity, 6.0 / 10);
  EXPECT_DOUBLE_EQ(*quality_of_referral(mixed, 2).specificity, 10.0 / 12);
}

TEST(GradeCounts, UndefinedMetricsAreOmitted) {
  const GradeCounts one_grade = counts({{0, 0}, {0, 7}});
  EXPECT_FALSE(quadratic_kappa(one_grade));
  EXPECT_FALSE(quality_of_grade(one_grade, 0).sensitivity);
  EXPECT_FALSE(quality_of_grade(one_grade, 1).specificity);
  const NamedNumbers listed = grade_numbers(one_grade, {"a", "b"}, std::nullopt);
  std::string names;
  for (const auto& [name, value] : listed) names += name + " ";
  EXPECT_EQ(names,
            "accuracy weighted_precision weighted_recall weighted_f1 mean_absolute_error "
            "specificity/a precision/a f1/a sensitivity/b precision/b f1/b ");
}

TEST(GradeCounts, MeanAbsoluteErrorIsInGrades) {
  EXPECT_DOUBLE_EQ(mean_absolute_error(counts({{5, 1, 2}, {0, 4, 0}, {1, 3, 6}})),
                   (1 * 1 + 2 * 2 + 1 * 2 + 3 * 1) / 22.0);
  EXPECT_EQ(mean_absolute_error(counts({{3, 0}, {0, 4}})), 0);
}

TEST(GradeCounts, KappaWeighsDistancesBySquares) {
  const GradeCounts near = counts({{8, 2, 0}, {0, 10, 0}, {0, 0, 10}}),
                    far = counts({{8, 0, 2}, {0, 10, 0}, {0, 0, 10}});
  EXPECT_GT(*quadratic_kappa(near), *quadratic_kappa(far));
  EXPECT_DOUBLE_EQ(*quadratic_kappa(counts({{3, 0}, {0, 4}})), 1);
}

}  // namespace
}  // namespace stages
