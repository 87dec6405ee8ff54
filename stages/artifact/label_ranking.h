#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stages {

/// A sample's score for one label, and whether the sample has that label.
struct ScoredLabel {
  double score = 0;  ///< higher: more likely to have the label
  bool is_positive = false;
};

/// Returns the average precision, the sum over thresholds of the precision times the increase in
/// recall, as scikit-learn's average_precision_score computes it: samples with equal scores are
/// accepted together. Returns nullopt if no sample has the label. Sorts `samples`.
std::optional<double> average_precision(std::span<ScoredLabel> samples);

/// The highest precision at each recall that some threshold yields. Recall increases from 0, where
/// the precision is 1 by definition, to 1.
struct PrecisionRecallCurve {
  std::vector<double> recall, precision;
};

/// Returns the curve of scikit-learn's precision_recall_curve without the thresholds that lower the
/// precision at the same recall. The average precision is the area below its steps. Returns nullopt
/// if no sample has the label. Sorts `samples`.
std::optional<PrecisionRecallCurve> precision_recall_curve(std::span<ScoredLabel> samples);

/// Returns the threshold with the highest F1 (compared without rounding) if all samples with at
/// least that score are accepted. The threshold is the score of a sample; ties go to the lowest
/// score. Returns nullopt if no sample has the label. Sorts `samples`.
std::optional<double> best_threshold(std::span<ScoredLabel> samples);

/// Returns a label's probability: the logistic function of its logit.
double label_probability(double logit);

}  // namespace stages
