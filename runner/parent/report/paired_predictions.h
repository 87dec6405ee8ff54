#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/comparison.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What an evaluation of classes has predicted for one sample.
struct RecordedPrediction {
  std::string name;  ///< of the sample, such as its file
  std::string label;
  bool is_right = false;
};

/// Reads predictions.csv in nodes/<node>/ of a run's `folder`, of an evaluation that writes the
/// columns `name`, `label` or `grade`, and `predicted` or `prediction`; sorted by name, samples of
/// one name in their order. kNoResults where there is no such file, kDamagedRecord where it is
/// another one.
Result<std::vector<RecordedPrediction>> read_predictions(const std::filesystem::path& folder,
                                                         const std::string& node);

/// The difference of a metric between two classifiers on the same samples.
struct MetricGain {
  double value = 0;          ///< run - base, a share
  double low = 0, high = 0;  ///< its 95 % interval
};

/// By how much a classifier is better than another on the same samples. What makes a sample hard is
/// the same for both, so only those count that one of them has right and the other wrong.
struct PairedClassifiers {
  std::string run, base;  ///< as the rows of the comparison are called
  std::int64_t better = 0, worse = 0,
               equal = 0;  ///< samples that only `run`, only `base`, both or neither have right
  /// McNemar's test of equal shares of errors, two-sided: exact, by the binomial distribution of
  /// `better` among those that differ, and its mid-p, which is less conservative (Fagerland,
  /// Lydersen and Laake, 2013).
  double p_value = 1, mid_p = 1;
  MetricGain accuracy, mean_per_class;  ///< intervals by a paired bootstrap, percentiles
  std::int64_t draws = 0;               ///< of the bootstrap
  std::uint64_t seed = 0;
};

/// `run` against `base`: the same samples in the same order, at least one. The same seed gives the
/// same intervals.
PairedClassifiers compare_classifiers(std::span<const RecordedPrediction> run,
                                      std::span<const RecordedPrediction> base, std::uint64_t seed);

/// Every evaluation but the first against that, by their predictions. kOptionConflict where two
/// were measured on other samples or by other labels; errors of read_predictions().
Result<std::vector<PairedClassifiers>> paired_classifiers(const Comparison& comparison,
                                                          std::uint64_t seed);

/// A table.
std::string paired_text(const std::vector<PairedClassifiers>& pairs);

/// A list of {"run", "base", "better", "worse", "equal", "p_value", "mid_p", "accuracy",
/// "mean_per_class", "draws", "seed"}, where the metrics are {"difference", "interval"}.
nlohmann::ordered_json to_json(const std::vector<PairedClassifiers>& pairs);

}  // namespace runner
