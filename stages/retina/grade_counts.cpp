#include "stages/retina/grade_counts.h"

#include <numeric>

namespace stages {
namespace {

double ratio_or_zero(double part, double whole) { return whole == 0 ? 0 : part / whole; }

std::optional<double> ratio_if_any(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// Of telling the grades of which `is_meant` holds from the others.
template <typename IsMeant>
DecisionQuality decision_quality(const GradeCounts& counts, IsMeant is_meant) {
  std::int64_t hits = 0, meant = 0, left_alone = 0, others = 0;
  for (std::int64_t truth = 0; truth < counts.grades(); ++truth) {
    for (std::int64_t predicted = 0; predicted < counts.grades(); ++predicted) {
      const std::int64_t count = counts.count(truth, predicted);
      (is_meant(truth) ? meant : others) += count;
      if (is_meant(truth) && is_meant(predicted)) hits += count;
      if (!is_meant(truth) && !is_meant(predicted)) left_alone += count;
    }
  }
  return {ratio_if_any(hits, meant), ratio_if_any(left_alone, others)};
}

struct Quality {
  double precision = 0, recall = 0, f1 = 0, support = 0;
};

Quality quality(const GradeCounts& counts, std::int64_t grade) {
  const auto correct = static_cast<double>(counts.count(grade, grade));
  const auto support = static_cast<double>(counts.support(grade));
  const auto predictions = static_cast<double>(counts.predictions(grade));
  return {ratio_or_zero(correct, predictions), ratio_or_zero(correct, support),
          ratio_or_zero(2 * correct, support + predictions), support};
}

}  // namespace

std::int64_t GradeCounts::support(std::int64_t truth) const {
  const auto row = counts_.begin() + truth * grades_;
  return std::accumulate(row, row + grades_, std::int64_t{0});
}

std::int64_t GradeCounts::predictions(std::int64_t predicted) const {
  std::int64_t sum = 0;
  for (std::int64_t truth = 0; truth < grades_; ++truth) sum += count(truth, predicted);
  return sum;
}

std::int64_t GradeCounts::samples() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

std::optional<double> quadratic_kappa(const GradeCounts& counts) {
  const std::int64_t grades = counts.grades();
  std::vector<double> truths, predictions;
  for (std::int64_t grade = 0; grade < grades; ++grade) {
    truths.push_back(static_cast<double>(counts.support(grade)));
    predictions.push_back(static_cast<double>(counts.predictions(grade)));
  }
  double observed = 0, expected = 0;  // of the squared distances, which all have the same denominator
  for (std::int64_t truth = 0; truth < grades; ++truth) {
    for (std::int64_t predicted = 0; predicted < grades; ++predicted) {
      const auto square = static_cast<double>((truth - predicted) * (truth - predicted));
      observed += square * static_cast<double>(counts.count(truth, predicted));
      expected += square * truths[static_cast<std::size_t>(truth)] * predictions[static_cast<std::size_t>(predicted)];
    }
  }
  if (expected == 0) return std::nullopt;
  return 1 - observed * static_cast<double>(counts.samples()) / expected;
}

DecisionQuality quality_of_grade(const GradeCounts& counts, std::int64_t grade) {
  return decision_quality(counts, [grade](std::int64_t other) { return other == grade; });
}

DecisionQuality quality_of_referral(const GradeCounts& counts, std::int64_t from) {
  return decision_quality(counts, [from](std::int64_t grade) { return grade >= from; });
}

NamedNumbers grade_numbers(const GradeCounts& counts, const std::vector<std::string>& names,
                           std::optional<std::int64_t> referable_from) {
  const auto samples = static_cast<double>(counts.samples());
  Quality weighted;
  double correct = 0;
  NamedNumbers of_grades;
  for (std::int64_t grade = 0; grade < counts.grades(); ++grade) {
    const Quality own = quality(counts, grade);
    const double share = own.support / samples;
    weighted.precision += share * own.precision;
    weighted.recall += share * own.recall;
    weighted.f1 += share * own.f1;
    correct += static_cast<double>(counts.count(grade, grade));
    const std::string& name = names[static_cast<std::size_t>(grade)];
    const DecisionQuality decision = quality_of_grade(counts, grade);
    if (decision.sensitivity) of_grades.emplace_back("sensitivity/" + name, *decision.sensitivity);
    if (decision.specificity) of_grades.emplace_back("specificity/" + name, *decision.specificity);
    of_grades.emplace_back("precision/" + name, own.precision);
    of_grades.emplace_back("f1/" + name, own.f1);
  }
  NamedNumbers numbers = {{"accuracy", correct / samples},
                          {"weighted_precision", weighted.precision},
                          {"weighted_recall", weighted.recall},
                          {"weighted_f1", weighted.f1}};
  if (const auto kappa = quadratic_kappa(counts)) numbers.emplace_back("quadratic_kappa", *kappa);
  if (referable_from) {
    const DecisionQuality referral = quality_of_referral(counts, *referable_from);
    if (referral.sensitivity) numbers.emplace_back("referable_sensitivity", *referral.sensitivity);
    if (referral.specificity) numbers.emplace_back("referable_specificity", *referral.specificity);
  }
  numbers.insert(numbers.end(), of_grades.begin(), of_grades.end());
  return numbers;
}

}  // namespace stages
