#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// A validation score that the `monitor` option can select.
inline constexpr std::string_view kMeanAveragePrecision = "mean_average_precision";

/// A label is predicted at this probability or above, unless validation chose another threshold.
inline constexpr double kUsualThreshold = 0.5;

/// In these functions, `rows` (n, 2 * labels), float32 on the CPU, contains the logits of each
/// sample and then its labels, 1 or 0.

/// Returns the mean of the labels' average precisions, ignoring labels that no sample has; nullopt
/// if no sample has any label.
std::optional<double> mean_average_precision(const at::Tensor& rows);

/// Returns, for each label, the probability threshold with the highest F1 (best_threshold()), or
/// kUsualThreshold if no sample has the label.
std::vector<double> chosen_thresholds(const at::Tensor& rows);

/// Returns the thresholds under the names used in checkpoints, which store them with the scores of
/// the validation that chose them.
std::vector<std::pair<std::string, double>> named_thresholds(const std::vector<double>& thresholds);

/// Returns the thresholds among the validation scores of a checkpoint; empty unless there is one
/// for each of `labels` labels.
std::vector<double> thresholds_of(const std::map<std::string, double>& validation,
                                  std::int64_t labels);
/// Like thresholds_of(), but returns kUsualThreshold for every label instead of an empty list.
std::vector<double> thresholds_or_usual(const std::map<std::string, double>& validation,
                                        std::int64_t labels);

}  // namespace stages
