#pragma once

#include <optional>
#include <vector>

namespace stages {

/// A sample as a detector of one class sees it.
struct Detected {
  double score = 0;  ///< higher: more likely of the class
  bool is_positive = false;
};

/// The receiver operating characteristic: for each threshold, from none taken to all, the share of negatives and of
/// positives that is taken. Both begin at 0, end at 1 and never fall.
struct RocCurve {
  std::vector<double> false_positives, true_positives;
  double area = 0;  ///< under it
};

/// Of samples in any order; those of equal score are taken together. nullopt where there is no positive or no negative.
std::optional<RocCurve> roc_curve(std::vector<Detected> samples);

/// The share of positives that is taken where `share` of the negatives are, the highest of several; between points
/// along a straight line.
double true_positives_at(const RocCurve& curve, double share);

/// The curve with at most `points` points, first and last among them. The area stays that of the whole.
RocCurve thinned(const RocCurve& curve, std::size_t points);

}  // namespace stages
