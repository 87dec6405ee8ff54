#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stages {

/// Cut points turn the expected grade of a sample into a grade: cut point i (starting at 0)
/// separates the grades up to i from those above. They are in ascending order.

/// Returns the mean of the grades 0, 1, … weighted by their probabilities.
double expected_grade(std::span<const double> probabilities);

/// Returns the number of cut points that are at most the expected grade.
std::int64_t grade_between(std::span<const double> cut_points, double expected);

/// A sample's expected grade and its true grade.
struct ExpectedGrade {
  double expected = 0;
  std::int64_t grade = 0;
};

/// Returns the `grades` - 1 cut points with the highest quadratic weighted kappa on `samples`,
/// which may be in any order. They are the global optimum, not a local one. Each lies halfway
/// between the two samples that it separates; one that separates none is 0 or `grades`. Kappa is 1
/// - A / B with sums A and B over samples, so the largest kappa follows from minimizing A - x B for
/// a sequence of x (Dinkelbach 1967, doi:10.1287/mnsc.13.7.492), each time by dynamic programming.
/// `samples` must not be empty. If no cut points have a kappa above 0, for example if all samples
/// have the same grade, the cut points lie halfway between the grades.
std::vector<double> best_cut_points(std::vector<ExpectedGrade> samples, std::int64_t grades);

}  // namespace stages
