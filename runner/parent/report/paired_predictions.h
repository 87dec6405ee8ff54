#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/comparison.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// The prediction for one sample in an evaluation with classes, or with any number of labels.
struct RecordedPrediction {
  std::string name;       ///< the sample's name, such as its file name
  std::string label;      ///< its class, or its labels, separated by |
  bool is_right = false;  ///< the class, or all labels, are predicted correctly
};

/// Reads nodes/<node>/predictions.csv of a run's `folder`, written by an evaluation with the
/// columns `name`, `label` or `grade`, and `predicted` or `prediction`. Returns the predictions
/// sorted by name; samples with the same name keep their order. kNoResults if there is no such
/// file, kDamagedRecord if it has another format.
Result<std::vector<RecordedPrediction>> read_predictions(const std::filesystem::path& folder,
                                                         const std::string& node);

/// The difference in a metric between two classifiers on the same samples.
struct MetricGain {
  double value = 0;          ///< run - base, as a fraction
  double low = 0, high = 0;  ///< 95% confidence interval
};

/// How much better one classifier is than another on the same samples. A hard sample is hard for
/// both, so only samples that exactly one of them gets right are counted.
struct PairedClassifiers {
  std::string run, base;  ///< the labels of the rows of the comparison
  /// Numbers of samples that only `run` gets right, only `base`, or both or neither.
  std::int64_t better = 0, worse = 0, equal = 0;
  /// McNemar's test of equal error rates, two-sided and exact, based on the binomial distribution
  /// of `better` among the samples on which they differ; and its mid-p value, which is less
  /// conservative (Fagerland, Lydersen and Laake, 2013).
  double p_value = 1, mid_p = 1;
  /// The differences, with percentile intervals from a paired bootstrap. For samples with any
  /// number of labels, `accuracy` is the subset accuracy, and there is no mean per class.
  MetricGain accuracy;
  std::optional<MetricGain> mean_per_class;
  std::int64_t draws = 0;  ///< number of bootstrap samples
  std::uint64_t seed = 0;
};

/// Compares `run` with `base`, which must contain the same samples (at least one) in the same
/// order. The same seed yields the same intervals.
PairedClassifiers compare_classifiers(std::span<const RecordedPrediction> run,
                                      std::span<const RecordedPrediction> base, std::uint64_t seed);

/// Compares the predictions of every evaluation with those of the first: the evaluations with
/// classes or, if there are none, those with any number of labels. kOptionConflict if their samples
/// or labels differ; also returns the errors of read_predictions().
Result<std::vector<PairedClassifiers>> paired_classifiers(const Comparison& comparison,
                                                          std::uint64_t seed);

/// Returns the comparisons as a table.
std::string paired_text(const std::vector<PairedClassifiers>& pairs, const TextStyle& style = {});

/// Returns a list of {"run", "base", "better", "worse", "equal", "p_value", "mid_p", "accuracy",
/// "mean_per_class", "draws", "seed"}, where the metrics are {"difference", "interval"}. For any
/// number of labels, "subset_accuracy" replaces both metrics.
nlohmann::ordered_json to_json(const std::vector<PairedClassifiers>& pairs);

}  // namespace runner
