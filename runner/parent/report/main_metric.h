#pragma once

#include <span>
#include <string>
#include <vector>

namespace runner {

/// True for a metric whose smallest value is best, judged by its name: a loss, an error, a rank, a
/// perplexity.
bool is_smaller_better(const std::string& metric);

/// True for a metric measured on the test data, judged by its name. A run chosen by such a metric
/// has no unbiased estimate left.
bool is_of_test(const std::string& metric);

/// The full names among `names` that `wanted` may mean: itself, or those that end in "/wanted";
/// with the node if several nodes measure it. "accuracy", "top1" and "test_accuracy" mean
/// "evaluate/top1" only.
std::vector<std::string> metrics_meant(const std::string& wanted,
                                       std::span<const std::string> names);

/// The metric among `names` by which to choose runs: a validation's accuracy, else its loss, else
/// the first validation metric; without any, that of main_metric(). What trainings monitor
/// (RunMetrics) takes precedence over this.
std::string choosing_metric(std::span<const std::string> names);

/// The most important metric, by which runs are shown and compared: the accuracy of an evaluation,
/// of a validation, a validation's loss; else the first of an evaluation, of a validation, of a
/// training; else the first. A name may start with its node, "vote:evaluate/top1"; one without a
/// node is preferred. Empty if `names` is.
std::string main_metric(std::span<const std::string> names);

}  // namespace runner
