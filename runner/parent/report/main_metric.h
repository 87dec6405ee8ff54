#pragma once

#include <span>
#include <string>
#include <vector>

namespace runner {

/// A metric of which the smallest value is best, by its name: a loss, an error, a rank, a
/// perplexity.
bool is_smaller_better(const std::string& metric);

/// A metric that is measured on the test data, by its name. Whoever chooses a run by it has no fair
/// estimate left of what the run is worth.
bool is_of_test(const std::string& metric);

/// The whole names among `names` that `wanted` may mean: itself, or those that end in "/wanted"; of
/// what several nodes measure those with their nodes. "accuracy", "top1" and "test_accuracy" are
/// "evaluate/top1" and nothing else.
std::vector<std::string> metrics_meant(const std::string& wanted,
                                       std::span<const std::string> names);

/// The metric by which runs are chosen, of those in `names`: a validation's, the accuracy or else
/// the loss or else the first; where there is none that of main_metric(). What trainings monitor
/// (RunMetrics) comes before this.
std::string choosing_metric(std::span<const std::string> names);

/// The metric that tells most of what runs have come to, by which they are shown and compared: the
/// accuracy of an evaluation, of a validation, a validation's loss; else the first of an
/// evaluation, of a validation, of a training; else the first. A name may say its node before it,
/// "vote:evaluate/top1"; one without counts before one with. Empty where `names` is.
std::string main_metric(std::span<const std::string> names);

}  // namespace runner
