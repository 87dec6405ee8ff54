#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/classification_metrics.h"

namespace stages {

/// How well a network predicts one label.
struct LabelQuality {
  std::optional<double> average_precision;  ///< nullopt if no sample has the label
  std::optional<double> area;  ///< under the ROC curve; nullopt if no sample or every sample has it
  double threshold = 0;        ///< the lowest probability at which the label is predicted
  ClassQuality found;          ///< of the predictions at that threshold
  std::int64_t support = 0;    ///< number of samples with the label
  bool is_present = true;      ///< false: the test set does not have the label
};

/// Metrics for predictions of any number of labels per sample, as scikit-learn defines them with
/// zero_division=0. Labels that are not in the test set are left out of all metrics.
struct MultiLabelMetrics {
  std::vector<LabelQuality> of_label;
  std::optional<double> mean_average_precision;  ///< mean over the labels that have one
  std::optional<double> macro_area;              ///< mean over the labels that have one
  ClassQuality micro;                            ///< over all (sample, label) pairs
  ClassQuality macro;                            ///< mean over labels
  double hamming_loss = 0;     ///< share of (sample, label) pairs predicted incorrectly
  double subset_accuracy = 0;  ///< share of samples with all labels predicted correctly
  std::int64_t samples = 0;
};

/// True if a label is predicted at this logit: its probability is at least the threshold. All
/// commands use this rule.
bool is_predicted(double logit, double threshold);

/// Computes the metrics for `logits` (n, labels), finite float32 values, and `labels` (n, labels),
/// uint8 values of 0 and 1, both contiguous on the CPU; n > 0. `thresholds` contains a probability
/// for each label. Labels that are not `present` are left out; if `present` is empty, all labels
/// are used.
MultiLabelMetrics multi_label_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                      const std::vector<double>& thresholds,
                                      const std::vector<bool>& present = {});

/// Returns the peak number of bytes that multi_label_metrics() needs.
std::int64_t multi_label_metric_bytes(std::int64_t samples);

/// Returns the scalar metrics that are defined, always in the order of the schema's x-metrics.
std::vector<std::pair<std::string, double>> summary(const MultiLabelMetrics& metrics);

/// Returns summary() and "per_label": a list of {"label", "average_precision", "auc", "threshold",
/// "precision", "recall", "f1", "support"}; null where undefined.
nlohmann::ordered_json to_json(const MultiLabelMetrics& metrics,
                               const std::vector<std::string>& labels);

/// Returns a table with a row for each label and one for the means.
std::string report_text(const MultiLabelMetrics& metrics, const std::vector<std::string>& labels);

/// Returns "mean average precision 83.2%, macro F1 71.0%, micro F1 75.3%, hamming loss 8.1%,
/// exactly right 52.0%, 144 samples".
std::string headline(const MultiLabelMetrics& metrics);

/// Returns label names as one table field, separated by |.
std::string joined_labels(const std::vector<std::string>& labels);

}  // namespace stages
