#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace stages {

/// How often samples of each grade were given each grade; grades stand in their order, from 0.
class GradeCounts {
 public:
  explicit GradeCounts(std::int64_t grades) : grades_(grades), counts_(static_cast<std::size_t>(grades * grades)) {}

  void add(std::int64_t truth, std::int64_t predicted, std::int64_t times = 1) {
    counts_[static_cast<std::size_t>(truth * grades_ + predicted)] += times;
  }

  std::int64_t grades() const { return grades_; }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const {
    return counts_[static_cast<std::size_t>(truth * grades_ + predicted)];
  }
  std::int64_t support(std::int64_t truth) const;
  std::int64_t predictions(std::int64_t predicted) const;
  std::int64_t samples() const;

 private:
  std::int64_t grades_;
  std::vector<std::int64_t> counts_;  // rows: true grades
};

/// Agreement beyond chance, where a prediction counts less the further it is off: 1 - sum(w O) / sum(w E) with
/// w = (i - j)^2 / (grades - 1)^2 (Cohen 1968), as scikit-learn's cohen_kappa_score(weights="quadratic"). nullopt where
/// all samples and predictions are of one grade.
std::optional<double> quadratic_kappa(const GradeCounts& counts);

/// Of a decision that is right or wrong: how many of those that it is about it finds, and how many of the others it
/// leaves alone. nullopt where there are none.
struct DecisionQuality {
  std::optional<double> sensitivity, specificity;
};
DecisionQuality quality_of_grade(const GradeCounts& counts, std::int64_t grade);
/// Of referring every sample of grade `from` or above to a doctor.
DecisionQuality quality_of_referral(const GradeCounts& counts, std::int64_t from);

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// accuracy, weighted_precision, weighted_recall, weighted_f1, quadratic_kappa, referable_sensitivity,
/// referable_specificity, and for each grade sensitivity/NAME, specificity/NAME, precision/NAME and f1/NAME: those that
/// are defined, always in this order. Precision and F1 are as scikit-learn's with zero_division=0. At least one sample.
NamedNumbers grade_numbers(const GradeCounts& counts, const std::vector<std::string>& names,
                           std::optional<std::int64_t> referable_from);

}  // namespace stages
