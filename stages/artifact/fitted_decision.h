#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/class_scores.h"
#include "stages/artifact/ordinal_head.h"

namespace stages {

class Checkpoint;

/// What to fit on the validation data.
struct DecisionFit {
  bool temperature = false;
  bool cut_points = false;            ///< classes are grades in ascending order
  std::optional<double> sensitivity;  ///< the sensitivity to reach for the second of two classes

  bool fits_anything() const { return temperature || cut_points || sensitivity; }
};

/// How a classifier's logits become probabilities and a predicted class. The default is the class
/// with the largest logit or, for an ordinal head, the first class at which the cumulative
/// probability reaches one half, as in predicted_ranks(). A temperature changes neither.
struct FittedDecision {
  double temperature = 1;  ///< divides the logits
  /// Cut points of the expected grade (cut_points.h); empty: none.
  std::vector<double> cut_points;
  /// The second of two classes is predicted if its probability reaches this value.
  std::optional<double> threshold;
  OrdinalHead ordinal = OrdinalHead::kNone;  ///< of the network

  /// True if the predicted class may not be the most likely one.
  bool decides() const { return is_fitted() || ordinal != OrdinalHead::kNone; }
  /// True if the predicted class depends on values that were chosen on validation data.
  bool is_fitted() const { return !cut_points.empty() || threshold.has_value(); }
  /// Returns the predicted class. `scores` must hold logits that have been divided by the
  /// temperature.
  std::int64_t predicted(const ClassScores& scores) const;
};

/// Fits a decision to `rows` (n, classes + 1) float32 on the CPU: the logits of each sample, then
/// its label; n > 0. First the temperature is fitted, then the rest on calibrated probabilities.
/// The threshold is the largest that reaches the sensitivity; it is not fitted if no sample has the
/// second class.
FittedDecision fitted_decision(const at::Tensor& rows, const DecisionFit& fit);

/// Returns the decision's values under the names used in checkpoints, which store them with the
/// scores of the validation on which they were fitted.
std::vector<std::pair<std::string, double>> named_numbers(const FittedDecision& decision);

/// Returns the decision stored among the validation scores of a checkpoint with this many classes.
FittedDecision decision_of(const std::map<std::string, double>& validation, std::int64_t classes);
/// Returns the decision for the classes of a checkpoint.
FittedDecision decision_of(const Checkpoint& checkpoint);

}  // namespace stages
