#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace stages {

/// The probability of a predicted class, and whether the prediction is correct.
struct Confidence {
  double probability = 0;
  bool is_correct = false;
};

/// Calibration: how well predicted probabilities match the share of correct predictions (Guo et
/// al. 2017, arXiv:1706.04599).
struct Calibration {
  /// The predictions with a probability in (low, high].
  struct Bin {
    double low = 0, high = 0;
    std::int64_t count = 0;
    double confidence = 0;  ///< mean probability; 0 if the bin is empty
    double accuracy = 0;    ///< share of correct predictions; 0 if the bin is empty
  };
  std::vector<Bin> bins;  ///< of equal width, from 0 to 1
  /// Expected calibration error: the mean over predictions of their bin's |accuracy - confidence|.
  double error = 0;
};

/// Returns the calibration of one or more `predictions`.
Calibration calibration(std::span<const Confidence> predictions, std::int64_t bins);

/// A sample's score for one class, and whether it belongs to that class.
struct Detected {
  double score = 0;  ///< higher: more likely to belong to the class
  bool is_positive = false;
};

/// The receiver operating characteristic: false and true positive rates by threshold, starting with
/// the threshold that accepts nothing. Both rates begin at 0, end at 1 and never decrease.
struct RocCurve {
  std::vector<double> false_positives, true_positives;
  double area = 0;  ///< under the curve
};

/// Returns the ROC curve of `samples`, in any order; samples with equal scores are accepted
/// together. Returns nullopt if there are no positives or no negatives.
std::optional<RocCurve> roc_curve(std::vector<Detected> samples);

/// Returns the true positive rate at the false positive rate `share`, interpolated linearly between
/// points; the highest if there are several.
double true_positives_at(const RocCurve& curve, double share);

/// Returns at most `points` of a curve's coordinates, evenly spaced, including the first and the
/// last.
std::vector<double> thinned(const std::vector<double>& coordinates, std::size_t points);
/// Returns the curve reduced to at most `points` points, including the first and the last. `area`
/// is still the area under the full curve.
RocCurve thinned(const RocCurve& curve, std::size_t points);

/// The maximum number of points per curve in curves.json, and the maximum number of classes or
/// labels with curves in it.
inline constexpr std::size_t kMostPoints = 400, kMostCurves = 20;

/// Returns {"auc", "fpr", "tpr"}, with at most kMostPoints points.
nlohmann::ordered_json to_json(const RocCurve& curve);

/// Measures how well a classifier's probabilities rank samples, and how well they are calibrated.
struct ClassificationCurves {
  /// One class against all others, by label; nullopt if none or all of the samples are in the
  /// class.
  std::vector<std::optional<RocCurve>> of_class;
  std::optional<double> macro_area;  ///< mean area over the classes with a curve
  /// The mean of the curves in `of_class` at the false positive rates 0, 0.01 … 1; `area` is
  /// macro_area.
  std::optional<RocCurve> macro;
  /// The curve over all (sample, class) pairs; nullopt if there are more than kMostPairs.
  std::optional<RocCurve> micro;
  Calibration calibration;  ///< for the probabilities of the predicted classes
};

/// The largest number of (sample, class) pairs ranked together.
inline constexpr std::int64_t kMostPairs = 20'000'000;

/// The default number of calibration bins.
inline constexpr std::int64_t kCalibrationBins = 15;

/// Computes the curves for `logits` (n, classes), which are finite and of any floating-point type,
/// and `labels` (n), int64 in [0, classes), both on the CPU; n > 0. If `bins` is 0, calibration is
/// not measured. `predicted` is as in classification_metrics().
ClassificationCurves classification_curves(const at::Tensor& logits, const at::Tensor& labels,
                                           std::int64_t bins = kCalibrationBins,
                                           const std::vector<std::int64_t>& predicted = {});

/// Returns the calibration part of classification_curves(); `bins` > 0.
Calibration calibration_of(const at::Tensor& logits, const at::Tensor& labels, std::int64_t bins,
                           const std::vector<std::int64_t>& predicted = {});

/// Returns the peak number of bytes that classification_curves() needs, including its result.
std::int64_t curve_bytes(std::int64_t samples, std::int64_t classes);

/// Returns the scalar metrics that are defined and measured: auc_macro, auc_micro and
/// calibration_error.
std::vector<std::pair<std::string, double>> summary(const ClassificationCurves& curves);

/// Returns {"roc": {"auc_of_class", "auc_macro", "auc_micro", "macro", "micro", "classes"},
/// "calibration": {"error", "bins"}}; "calibration" is null if it was not measured. "classes"
/// contains the curves by class name, if there are at most kMostCurves classes.
nlohmann::ordered_json to_json(const ClassificationCurves& curves,
                               const std::vector<std::string>& classes);

}  // namespace stages
