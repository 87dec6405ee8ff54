#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/calibration.h"
#include "stages/evaluate/roc_curve.h"

namespace stages {

/// How well the probabilities of a classifier rank and how far they can be believed.
struct ClassificationCurves {
  /// One class against all others, by label; absent where the class has no samples, or all.
  std::vector<std::optional<RocCurve>> of_class;
  std::optional<double> macro_area;  ///< mean over the classes that have a curve
  std::optional<RocCurve> macro;     ///< mean of their curves at 0, 0.01 … 1 of the negatives; its area is macro_area
  std::optional<RocCurve> micro;     ///< every pair of sample and class; absent for more than kMostPairs
  Calibration calibration;           ///< of the predicted class's probability
};

/// Pairs of sample and class up to which all are ranked together.
inline constexpr std::int64_t kMostPairs = 20'000'000;

/// Bins of a calibration where nobody says another number.
inline constexpr std::int64_t kCalibrationBins = 15;

/// Of logits (n, classes), any floating type, finite, and labels (n) int64 in [0, classes), both on the CPU; n > 0.
/// With 0 bins the calibration is not measured: it has none. `predicted` as of classification_metrics().
ClassificationCurves classification_curves(const at::Tensor& logits, const at::Tensor& labels,
                                           std::int64_t bins = kCalibrationBins,
                                           const std::vector<std::int64_t>& predicted = {});

/// Bytes that classification_curves() takes at its most, those that it gives back among them.
std::int64_t curve_bytes(std::int64_t samples, std::int64_t classes);

/// What of it is one number a run: auc_macro, auc_micro and calibration_error, where they are defined and measured.
std::vector<std::pair<std::string, double>> summary(const ClassificationCurves& curves);

/// {"roc": {"auc_of_class", "auc_macro", "auc_micro", "macro", "micro", "classes"}, "calibration": {"error", "bins"}},
/// null where it was not measured;
/// a curve is {"auc", "fpr", "tpr"}, with at most 400 points. "classes" are those of up to 20 classes, by name.
nlohmann::ordered_json to_json(const ClassificationCurves& curves, const std::vector<std::string>& classes);

}  // namespace stages
