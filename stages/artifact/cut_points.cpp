#include "stages/artifact/cut_points.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <utility>

namespace stages {
namespace {

/// Sums over samples with the same expected grade.
struct EqualGrades {
  double expected = 0, count = 0, sum = 0, squares = 0;  // `sum` and `squares` are over the true
                                                         // grades
};

/// The samples in order of expected grade, and ways to divide them among the grades.
class SortedGrades {
 public:
  SortedGrades(std::vector<ExpectedGrade> samples, std::int64_t grades)
      : grades_(static_cast<std::size_t>(grades)) {
    std::ranges::sort(samples, {}, &ExpectedGrade::expected);
    for (const auto& [expected, grade] : samples) {
      if (groups_.empty() || groups_.back().expected != expected)
        groups_.push_back({.expected = expected});
      const auto truth = static_cast<double>(grade);
      groups_.back().count += 1;
      groups_.back().sum += truth;
      groups_.back().squares += truth * truth;
      count_ += 1;
      sum_ += truth;
    }
  }

  /// For each grade, the first group that is assigned this grade or a higher one. Grade 0 begins at
  /// group 0.
  using Starts = std::vector<std::size_t>;

  /// kappa = 1 - observed / expected.
  struct Disagreement {
    double observed = 0, expected = 0;
  };
  Disagreement disagreement(const Starts& starts) const {
    Disagreement all;
    std::size_t grade = 0;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      while (grade + 1 < grades_ && starts[grade + 1] <= group) ++grade;
      const Disagreement own = disagreement(groups_[group], static_cast<double>(grade));
      all.observed += own.observed;
      all.expected += own.expected;
    }
    return all;
  }

  /// Returns the starts that minimize observed - factor * expected disagreement.
  Starts best(double factor) const {
    struct Way {
      double cost = 0;
      Starts starts;
    };
    // For each grade g, the best way to assign the grades 0 to g to the groups so far, with g for
    // the last group.
    std::vector<Way> ways(grades_, {0, Starts(grades_, groups_.size())});
    ways.front().starts.front() = 0;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (std::size_t grade = 1; grade < grades_; ++grade) {
        if (group > 0 && ways[grade].cost <= ways[grade - 1].cost) continue;
        ways[grade] = ways[grade - 1];
        ways[grade].starts[grade] = group;
      }
      for (std::size_t grade = 0; grade < grades_; ++grade) {
        const auto own = disagreement(groups_[group], static_cast<double>(grade));
        ways[grade].cost += own.observed - factor * own.expected;
      }
    }
    return std::ranges::min_element(ways, {}, &Way::cost)->starts;
  }

  std::vector<double> cut_points(const Starts& starts) const {
    std::vector<double> cuts;
    for (std::size_t grade = 1; grade < grades_; ++grade) {
      const std::size_t start = starts[grade];
      cuts.push_back(start == 0 ? 0
                     : start == groups_.size()
                         ? static_cast<double>(grades_)
                         : (groups_[start - 1].expected + groups_[start].expected) / 2);
    }
    return cuts;
  }

 private:
  /// Returns the sum of the squared distances between the samples in `group` and `grade`, and its
  /// expected value if grades and predictions were independent.
  Disagreement disagreement(const EqualGrades& group, double grade) const {
    const double square = group.count * grade * grade;
    return {group.squares - 2 * grade * group.sum + square,
            group.squares + square - 2 * grade * group.count * sum_ / count_};
  }

  std::size_t grades_;
  std::vector<EqualGrades> groups_;
  double count_ = 0, sum_ = 0;
};

std::vector<double> halfway(std::int64_t grades) {
  constexpr double kHalf = 0.5;
  std::vector<double> cuts;
  for (std::int64_t grade = 0; grade + 1 < grades; ++grade)
    cuts.push_back(static_cast<double>(grade) + kHalf);
  return cuts;
}

}  // namespace

double expected_grade(std::span<const double> probabilities) {
  double expected = 0;
  for (std::size_t grade = 0; grade < probabilities.size(); ++grade)
    expected += static_cast<double>(grade) * probabilities[grade];
  return expected;
}

std::int64_t grade_between(std::span<const double> cut_points, double expected) {
  return std::ranges::upper_bound(cut_points, expected) - cut_points.begin();
}

std::vector<double> best_cut_points(std::vector<ExpectedGrade> samples, std::int64_t grades) {
  assert(!samples.empty() && grades > 0);
  constexpr int kMostSteps = 100;  // far more steps than needed, since convergence is superlinear
  const SortedGrades sorted(std::move(samples), grades);
  double ratio = 1;  // 1 - kappa
  std::optional<SortedGrades::Starts> best;
  for (int step = 0; step < kMostSteps; ++step) {
    SortedGrades::Starts starts = sorted.best(ratio);
    const auto [observed, expected] = sorted.disagreement(starts);
    if (expected <= 0 || observed / expected >= ratio) break;
    ratio = observed / expected;
    best = std::move(starts);
  }
  return best ? sorted.cut_points(*best) : halfway(grades);
}

}  // namespace stages
