#pragma once

#include <span>
#include <string>
#include <vector>

namespace runner {

/// True if smaller values of a metric are better, judging by its name: a loss, an error (such as
/// mae or rmse), a rank or a perplexity.
bool is_smaller_better(const std::string& metric);

/// True if a metric is measured on the test data, judging by its name. If a run is selected using
/// such a metric, its test result is no longer an unbiased estimate.
bool is_of_test(const std::string& metric);

/// Returns the full names among `names` that `wanted` may mean: `wanted` itself, or those that end
/// in "/wanted", with the node if several nodes measure it. "accuracy", "top1" and "test_accuracy"
/// refer only to "evaluate/top1".
std::vector<std::string> metrics_meant(const std::string& wanted,
                                       std::span<const std::string> names);

/// Returns the metric among `names` to use for choosing runs: validation accuracy, else validation
/// loss, else the first validation metric, else main_metric(). A metric that training stages
/// monitor (RunMetrics) takes precedence.
std::string choosing_metric(std::span<const std::string> names);

/// Returns the most important metric, by which runs are shown and compared: the accuracy of an
/// evaluation, validation accuracy, validation loss; else the first metric of an evaluation, a
/// validation or a training stage; else the first name. A name may be prefixed with its node,
/// "vote:evaluate/top1"; names without a node are preferred. Empty if `names` is empty.
std::string main_metric(std::span<const std::string> names);

}  // namespace runner
