#include "stages/artifact/cut_points.h"

#include <cstdlib>

#include <gmock/gmock.h>

#include "stages/retina/grade_metrics.h"

namespace stages {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

double kappa(const std::vector<ExpectedGrade>& samples, const std::vector<double>& cuts) {
  GradeCounts counts(std::ssize(cuts) + 1);
  for (const auto& [expected, grade] : samples) counts.add(grade, grade_between(cuts, expected));
  return quadratic_kappa(counts).value_or(0);
}

TEST(CutPoints, ExpectedGradeIsTheMean) {
  EXPECT_DOUBLE_EQ(expected_grade(std::vector<double>{0.5, 0.25, 0.25}), 0.75);
}

TEST(CutPoints, SampleAtACutPointHasTheHigherGrade) {
  const std::vector<double> cuts = {0.5, 0.5, 2};
  EXPECT_EQ(grade_between(cuts, 0.25), 0);
  EXPECT_EQ(grade_between(cuts, 0.5), 2);
  EXPECT_EQ(grade_between(cuts, 2.5), 3);
}

TEST(CutPoints, SeparateGradesThatCanBeSeparated) {
  EXPECT_THAT(best_cut_points({{0.25, 0}, {0.5, 0}, {1, 1}, {0.75, 1}, {1.25, 2}}, 3),
              ElementsAre(DoubleEq(0.625), DoubleEq(1.125)));
}

TEST(CutPoints, GradeWithoutSamplesIsSkipped) {
  EXPECT_THAT(best_cut_points({{0.25, 0}, {0.5, 0}, {1, 2}, {1.5, 2}}, 4),
              ElementsAre(0.75, 0.75, 4));
  EXPECT_THAT(best_cut_points({{0.25, 1}, {0.5, 1}, {1, 2}}, 3), ElementsAre(0, 0.75));
}

TEST(CutPoints, SamplesOfASingleGradeGiveDefaultCutPoints) {
  EXPECT_THAT(best_cut_points({{0.25, 1}, {0.5, 1}}, 3), ElementsAre(0.5, 1.5));
}

TEST(CutPoints, NoOtherCutPointsHaveAHigherKappa) {
  std::uint32_t state = 1;
  const auto below = [&](std::uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % limit;
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<ExpectedGrade> samples;
    for (int i = 0; i < 14; ++i)
      samples.push_back({below(24) / 8.0, static_cast<std::int64_t>(below(4))});
    const double best = kappa(samples, best_cut_points(samples, 4));
    for (int a = 0; a <= 25; ++a)
      for (int b = a; b <= 25; ++b)
        for (int c = b; c <= 25; ++c)
          EXPECT_LE(kappa(samples, {a / 8.0 - 1.0 / 16, b / 8.0 - 1.0 / 16, c / 8.0 - 1.0 / 16}),
                    best + 1e-12);
  }
}

}  // namespace
}  // namespace stages
