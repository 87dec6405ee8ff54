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

/// Whether predictions are right as often as their probability says (Guo and others, 2017,
/// arXiv:1706.04599).
struct Calibration {
  /// The predictions whose probability lies in (low, high].
  struct Bin {
    double low = 0, high = 0;
    std::int64_t count = 0;
    double confidence = 0;  ///< mean probability; 0 where there are none
    double accuracy = 0;    ///< share of them that is right; 0 where there are none
  };
  std::vector<Bin> bins;  ///< of equal width, from 0 to 1
  double error = 0;  ///< expected: mean over predictions of |accuracy - confidence| of their bin
};

/// Of at least one prediction.
Calibration calibration(std::span<const Confidence> predictions, std::int64_t bins);

/// A sample as a detector of one class sees it.
struct Detected {
  double score = 0;  ///< higher: more likely of the class
  bool is_positive = false;
};

/// The receiver operating characteristic: for each threshold, from none taken to all, the share of
/// negatives and of positives that is taken. Both begin at 0, end at 1 and never fall.
struct RocCurve {
  std::vector<double> false_positives, true_positives;
  double area = 0;  ///< under it
};

/// Of samples in any order; those of equal score are taken together. nullopt where there is no
/// positive or no negative.
std::optional<RocCurve> roc_curve(std::vector<Detected> samples);

/// The share of positives that is taken where `share` of the negatives are, the highest of several;
/// between points along a straight line.
double true_positives_at(const RocCurve& curve, double share);

/// The curve with at most `points` points, first and last among them. The area stays that of the
/// whole.
RocCurve thinned(const RocCurve& curve, std::size_t points);

/// How well the probabilities of a classifier rank and how far they can be believed.
struct ClassificationCurves {
  /// One class against all others, by label; absent where the class has no samples, or all.
  std::vector<std::optional<RocCurve>> of_class;
  std::optional<double> macro_area;  ///< mean over the classes that have a curve
  std::optional<RocCurve>
      macro;  ///< mean of their curves at 0, 0.01 … 1 of the negatives; its area is macro_area
  std::optional<RocCurve>
      micro;                ///< every pair of sample and class; absent for more than kMostPairs
  Calibration calibration;  ///< of the predicted class's probability
};

/// Pairs of sample and class up to which all are ranked together.
inline constexpr std::int64_t kMostPairs = 20'000'000;

/// Bins of a calibration where nobody says another number.
inline constexpr std::int64_t kCalibrationBins = 15;

/// Of logits (n, classes), any floating type, finite, and labels (n) int64 in [0, classes), both on
/// the CPU; n > 0. With 0 bins the calibration is not measured: it has none. `predicted` as of
/// classification_metrics().
ClassificationCurves classification_curves(const at::Tensor& logits, const at::Tensor& labels,
                                           std::int64_t bins = kCalibrationBins,
                                           const std::vector<std::int64_t>& predicted = {});

/// Bytes that classification_curves() takes at its most, those that it gives back among them.
std::int64_t curve_bytes(std::int64_t samples, std::int64_t classes);

/// What of it is one number a run: auc_macro, auc_micro and calibration_error, where they are
/// defined and measured.
std::vector<std::pair<std::string, double>> summary(const ClassificationCurves& curves);

/// {"roc": {"auc_of_class", "auc_macro", "auc_micro", "macro", "micro", "classes"}, "calibration":
/// {"error", "bins"}}, null where it was not measured; a curve is {"auc", "fpr", "tpr"}, with at
/// most 400 points. "classes" are those of up to 20 classes, by name.
nlohmann::ordered_json to_json(const ClassificationCurves& curves,
                               const std::vector<std::string>& classes);

}  // namespace stages
