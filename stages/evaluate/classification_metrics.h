#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/predictor.h"

namespace runner {
class ConfigReader;
class RunContext;
}  // namespace runner

namespace stages {

/// Counts how often samples of each class were predicted as each class. Memory use grows with the
/// number of samples, not with the square of the number of classes.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);

  void add(std::int64_t truth, std::int64_t predicted);

  std::int64_t classes() const { return static_cast<std::int64_t>(support_.size()); }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;
  /// The number of samples in the class.
  std::int64_t support(std::int64_t truth) const {
    return support_.at(static_cast<std::size_t>(truth));
  }
  /// The number of samples predicted to be in the class.
  std::int64_t predictions(std::int64_t predicted) const {
    return predictions_.at(static_cast<std::size_t>(predicted));
  }
  std::int64_t correct() const { return correct_; }
  std::int64_t samples() const { return samples_; }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;
  std::vector<std::int64_t> support_, predictions_;
  std::int64_t correct_ = 0, samples_ = 0;
};

/// Precision, recall and F1 of one class, or their mean over classes.
struct ClassQuality {
  double precision = 0, recall = 0, f1 = 0;
};

/// Returns the metrics of one class, as scikit-learn defines them with zero_division=0.
ClassQuality class_quality(const ConfusionMatrix& confusion, std::int64_t label);

/// A confidence interval for a share.
struct Interval {
  double low = 0, high = 0;
};

/// Returns the 95% confidence interval for a share observed as `successes` out of `trials` (Wilson
/// 1927, doi:10.1080/01621459.1927.10502953).
Interval wilson_interval(std::int64_t successes, std::int64_t trials);

/// Metrics of a classifier's predictions, as scikit-learn defines them with zero_division=0: a
/// class that is never predicted has precision 0, a class without samples has recall 0, and both
/// have F1 0 and are included in the macro means.
struct ClassificationMetrics {
  ConfusionMatrix confusion{0};
  std::vector<ClassQuality> of_class;  ///< by label
  ClassQuality macro;                  ///< mean over all classes that can occur
  ClassQuality weighted;               ///< mean over classes, weighted by their number of samples
  double top1 = 0;                     ///< share of samples whose class has the largest logit
  /// k, and the share of samples whose class is among the k best.
  std::vector<std::pair<std::int64_t, double>> top_k;
  Interval top1_interval;
  /// Mean recall over the classes that have samples ("balanced accuracy").
  double mean_per_class = 0;
  double log_loss = 0;  ///< mean of -log(softmax probability of the true class), in nats
  double chance = 0;    ///< expected top1 of uniform guessing
};

/// Computes the metrics for `logits` (n, classes), which are finite and of any floating-point type,
/// and `labels` (n), int64 in [0, classes), both on the CPU; n > 0. Ties go to the lower class.
/// Values of `top_k` that are at least the number of classes are left out, since their accuracy is
/// 1 by definition. Classes that are not `present` cannot occur and are left out of macro means; if
/// `present` is empty, all classes count. `predicted`, if not empty, contains each sample's
/// predicted class, which is used instead of the one with the largest logit.
ClassificationMetrics classification_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                             const std::vector<std::int64_t>& top_k,
                                             const std::vector<bool>& present = {},
                                             const std::vector<std::int64_t>& predicted = {});

/// Returns the scalar metrics by name, always in this order: top1, top<k>…, mean_per_class,
/// macro_precision, macro_recall, macro_f1, weighted_precision, weighted_recall, weighted_f1,
/// log_loss, top1_low, top1_high, chance, samples.
std::vector<std::pair<std::string, double>> summary(const ClassificationMetrics& metrics);

/// Returns a table like scikit-learn's classification_report: precision, recall, F1 and support of
/// every class, and their means. `classes` contains the names by label; their control characters
/// are replaced by '?'.
std::string report_text(const ClassificationMetrics& metrics,
                        const std::vector<std::string>& classes);

/// Returns all of `metrics` under unabbreviated names, in a fixed order. The confusion matrix is a
/// list of rows, one per true class; null for more than kLargestMatrix classes.
nlohmann::ordered_json to_json(const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes);

/// Returns a list of rows, one per true class; null for more than kLargestMatrix classes.
nlohmann::ordered_json to_json(const ConfusionMatrix& confusion);

/// The largest number of classes for which a confusion matrix is written.
inline constexpr std::int64_t kLargestMatrix = 2000;

/// Returns "top-1 83.3% (95% interval 76.4–88.5%), mean per class 81.9%, chance 8.3%, 144
/// images".
std::string headline(const ClassificationMetrics& metrics);

/// The options shared by all stages that evaluate classifiers.
struct ReportOptions {
  std::vector<std::int64_t> top_k;  ///< ascending
  bool csv = false;                 ///< whether to write predictions.csv
  bool suspects = false;            ///< whether to write suspected_labels.csv
  std::int64_t calibration_bins = kCalibrationBins;
};

ReportOptions read_report_options(runner::ConfigReader& reader);

/// The results of an evaluation. All members except the last two are borrowed.
struct Classified {
  const ClassifiedSamples& samples;
  const ClassificationMetrics& metrics;
  const std::vector<std::string>& classes;  ///< a name for each column of the logits
  const Checkpoint& checkpoint;
  /// Additional keys of metrics.json.
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();
  std::vector<std::pair<std::string, double>> values = {};  ///< additional metrics, in this order
};

/// Writes metrics.json, evaluation_results.json, curves, report.txt, the confusion matrix and, if
/// requested, predictions.csv into the node's folder. Reports the headline and anything that was
/// left out. Returns the outputs "metrics" and "predictions".
runner::Outputs report_classification(const Classified& classified, const ReportOptions& options,
                                      runner::RunContext& context);

/// Returns the result of scikit-learn's classification_report(labels=all classes,
/// target_names=classes, output_dict=True, zero_division=0): precision, recall, f1-score and
/// support by class name, then accuracy, "macro avg" and "weighted avg". If several classes have
/// the same name, the last one's values replace the others'.
nlohmann::ordered_json report_dict(const ClassificationMetrics& metrics,
                                   const std::vector<std::string>& classes);

/// Returns the text of evaluation_results.json, with one line per field: test_loss, test_accuracy,
/// predictions and labels (one class index per sample), confusion_matrix (rows: true classes; null
/// for more than kLargestMatrix classes) and classification_report.
std::string evaluation_results(const ClassifiedSamples& samples,
                               const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes);

}  // namespace stages
