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

/// Counts how often samples of each class were predicted as each class. Memory grows with the
/// samples added, not with the square of the number of classes.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);

  void add(std::int64_t truth, std::int64_t predicted);

  std::int64_t classes() const { return static_cast<std::int64_t>(support_.size()); }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;
  /// The number of samples of the class.
  std::int64_t support(std::int64_t truth) const {
    return support_.at(static_cast<std::size_t>(truth));
  }
  /// The number of samples predicted as the class.
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

/// Of one class, as in scikit-learn with zero_division=0.
ClassQuality class_quality(const ConfusionMatrix& confusion, std::int64_t label);

/// A confidence interval of a share.
struct Interval {
  double low = 0, high = 0;
};

/// The 95 % interval of a share observed as `successes` of `trials` (Wilson 1927,
/// doi:10.1080/01621459.1927.10502953).
Interval wilson_interval(std::int64_t successes, std::int64_t trials);

/// Quality of a classifier's predictions, as scikit-learn defines it with zero_division=0: a class
/// that is never predicted has precision 0, a class without samples has recall 0, and both have F1
/// 0 and count in the macro means.
struct ClassificationMetrics {
  ConfusionMatrix confusion{0};
  std::vector<ClassQuality> of_class;  ///< by label
  ClassQuality macro;                  ///< mean over all classes that may occur
  ClassQuality weighted;               ///< mean over samples of the values of their class
  double top1 = 0;                     ///< share of samples whose class has the largest logit
  std::vector<std::pair<std::int64_t, double>>
      top_k;  ///< k, and the share of samples whose class is among the k best
  Interval top1_interval;
  double mean_per_class =
      0;                ///< mean recall of the classes that have samples ("balanced accuracy")
  double log_loss = 0;  ///< mean of -log of the true class's softmax share, in nats
  double chance = 0;    ///< top1 of guessing evenly among the classes
};

/// `logits` (n, classes) of any floating type, finite, and `labels` (n) int64 in [0, classes), both
/// on the CPU; n > 0. Ties go to the lower class. Values of `top_k` not below the number of classes
/// are left out: their accuracy is 1 by definition. Classes that are not `present` cannot occur and
/// are left out of the macro means; without `present` all count. `predicted`, if not empty, gives
/// each sample's predicted class in place of its largest logit.
ClassificationMetrics classification_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                             const std::vector<std::int64_t>& top_k,
                                             const std::vector<bool>& present = {},
                                             const std::vector<std::int64_t>& predicted = {});

/// The scalar metrics by name, always in this order: top1, top<k>…, mean_per_class,
/// macro_precision, macro_recall, macro_f1, weighted_precision, weighted_recall, weighted_f1,
/// log_loss, top1_low, top1_high, chance, samples.
std::vector<std::pair<std::string, double>> summary(const ClassificationMetrics& metrics);

/// Precision, recall, F1 and support of every class and their means, as a table laid out like
/// scikit-learn's classification_report. `classes`: names by label. Control characters of a name
/// are shown as '?'.
std::string report_text(const ClassificationMetrics& metrics,
                        const std::vector<std::string>& classes);

/// All of `metrics` under unabbreviated names, keys in a fixed order. The confusion matrix is a
/// list of rows, one per true class; null for more than kLargestMatrix classes.
nlohmann::ordered_json to_json(const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes);

/// A list of rows, one per true class; null for more than kLargestMatrix classes.
nlohmann::ordered_json to_json(const ConfusionMatrix& confusion);

/// The largest number of classes for which a confusion matrix is written.
inline constexpr std::int64_t kLargestMatrix = 2000;

/// "top-1 83.3 % (95 % interval 76.4–88.5 %), mean per class 81.9 %, chance 8.3 %, 144 images".
std::string headline(const ClassificationMetrics& metrics);

/// The options shared by all evaluations of classifiers.
struct ReportOptions {
  std::vector<std::int64_t> top_k;  ///< ascending
  bool csv = false;                 ///< writes predictions.csv
  std::int64_t calibration_bins = kCalibrationBins;
};

ReportOptions read_report_options(runner::ConfigReader& reader);

/// The findings of an evaluation; everything is borrowed except the last two members.
struct Classified {
  const ClassifiedSamples& samples;
  const ClassificationMetrics& metrics;
  const std::vector<std::string>& classes;  ///< a name for each column of the logits
  const Checkpoint& checkpoint;
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();  ///< additional members of
                                                                      ///< metrics.json
  std::vector<std::pair<std::string, double>> values = {};  ///< additional metrics, in their order
};

/// Writes metrics.json, evaluation_results.json, curves, report.txt, the confusion matrix and, if
/// requested, predictions.csv into the node's folder. Reports the headline and what is left out.
/// Returns the outputs of every such evaluation: "metrics" and "predictions".
runner::Outputs report_classification(const Classified& classified, const ReportOptions& options,
                                      runner::RunContext& context);

/// scikit-learn's classification_report(labels=all of them, target_names=classes, output_dict=True,
/// zero_division=0): for each class name its precision, recall, f1-score and support, then
/// accuracy, "macro avg" and "weighted avg". If several classes share a name, the last one's values
/// stand in the first one's place.
nlohmann::ordered_json report_dict(const ClassificationMetrics& metrics,
                                   const std::vector<std::string>& classes);

/// The text of evaluation_results.json, one line per field: test_loss, test_accuracy, predictions
/// and labels (a class index for each sample), confusion_matrix (rows: true classes; null for more
/// than kLargestMatrix) and classification_report.
std::string evaluation_results(const ClassifiedSamples& samples,
                               const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes);

}  // namespace stages
