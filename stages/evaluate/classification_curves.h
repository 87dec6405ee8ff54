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

/// A prediction, the probability that the network gave it, and whether it was right.
struct Confidence {
  double probability = 0;
  bool is_correct = false;
};

/// Calibration: are predictions right as often as their probability says (Guo and others, 2017,
/// arXiv:1706.04599)?
struct Calibration {
  /// The predictions whose probability lies in (low, high].
  struct Bin {
    double low = 0, high = 0;
    std::int64_t count = 0;
    double confidence = 0;  ///< mean probability; 0 if the bin is empty
    double accuracy = 0;    ///< share of them that is right; 0 if the bin is empty
  };
  std::vector<Bin> bins;  ///< of equal width, from 0 to 1
  double error = 0;       ///< expected calibration error: mean over predictions of |accuracy -
                          ///< confidence| of their bin
};

/// `predictions` has at least one element.
Calibration calibration(std::span<const Confidence> predictions, std::int64_t bins);

/// A sample as seen by a detector of one class.
struct Detected {
  double score = 0;  ///< higher: more likely to be of the class
  bool is_positive = false;
};

/// The receiver operating characteristic: the false and true positive rate at each threshold,
/// starting at the threshold that accepts nothing. Both rates begin at 0, end at 1 and never fall.
struct RocCurve {
  std::vector<double> false_positives, true_positives;
  double area = 0;  ///< under the curve
};

/// Samples may be in any order; samples of equal score are accepted together. nullopt if there are
/// no positives or no negatives.
std::optional<RocCurve> roc_curve(std::vector<Detected> samples);

/// The true positive rate at the false positive rate `share`, the highest if there are several;
/// interpolated linearly between points.
double true_positives_at(const RocCurve& curve, double share);

/// The curve reduced to at most `points` points, including the first and the last. The area remains
/// that of the full curve.
RocCurve thinned(const RocCurve& curve, std::size_t points);

/// How well a classifier's probabilities rank samples, and how well they are calibrated.
struct ClassificationCurves {
  /// One class against all others, by label; absent if the class has no samples or all of them.
  std::vector<std::optional<RocCurve>> of_class;
  std::optional<double> macro_area;  ///< mean over the classes with a curve
  std::optional<RocCurve> macro;  ///< mean of their curves at the false positive rates 0, 0.01 … 1;
                                  ///< its area is macro_area
  std::optional<RocCurve> micro;  ///< over all pairs of sample and class; absent if there are more
                                  ///< than kMostPairs
  Calibration calibration;        ///< of the predicted class's probability
};

/// The largest number of (sample, class) pairs that are ranked together.
inline constexpr std::int64_t kMostPairs = 20'000'000;

/// The default number of calibration bins.
inline constexpr std::int64_t kCalibrationBins = 15;

/// `logits` (n, classes) of any floating type, finite, and `labels` (n) int64 in [0, classes), both
/// on the CPU; n > 0. With 0 bins calibration is not measured and has no bins. `predicted` as in
/// classification_metrics().
ClassificationCurves classification_curves(const at::Tensor& logits, const at::Tensor& labels,
                                           std::int64_t bins = kCalibrationBins,
                                           const std::vector<std::int64_t>& predicted = {});

/// Peak bytes that classification_curves() needs, including its result.
std::int64_t curve_bytes(std::int64_t samples, std::int64_t classes);

/// The scalar metrics: auc_macro, auc_micro and calibration_error, if they are defined and
/// measured.
std::vector<std::pair<std::string, double>> summary(const ClassificationCurves& curves);

/// {"roc": {"auc_of_class", "auc_macro", "auc_micro", "macro", "micro", "classes"}, "calibration":
/// {"error", "bins"}}, null if it was not measured; a curve is {"auc", "fpr", "tpr"}, with at most
/// 400 points. "classes" has the curves by class name, for up to 20 classes.
nlohmann::ordered_json to_json(const ClassificationCurves& curves,
                               const std::vector<std::string>& classes);

}  // namespace stages
