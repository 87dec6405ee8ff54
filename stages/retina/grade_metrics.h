#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/retina/grade_counts.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The options of every evaluation of grades.
struct GradingOptions {
  std::optional<std::int64_t> referable_from;  ///< the lowest grade that is referred
  std::optional<double> target_accuracy;
  std::int64_t bootstrap = 0;  ///< draws for the intervals
};

/// Reads referable_from, target_accuracy and bootstrap.
GradingOptions read_grading_options(runner::ConfigReader& reader);

/// Samples of known grades, and what was said about each.
struct GradedSamples {
  std::vector<std::string> grades;      ///< their names, in their order
  std::vector<std::int64_t> labels;     ///< of each sample
  std::vector<std::int64_t> predicted;  ///< likewise
  std::vector<double> scores;           ///< (samples, grades), row by row: what ranks the samples for each grade
};

struct NumberInterval {
  double low = 0, high = 0;
};

/// How good a grading is. The numbers are those of grade_numbers(), auc/NAME for each grade that some samples have and
/// some have not, and auc_weighted, their mean by the grades' samples.
struct Grading {
  GradeCounts counts{0};
  NamedNumbers numbers;
  std::map<std::string, NumberInterval> intervals;  ///< of 95 %: percentiles over the draws; by name
};

/// Of at least one sample. Bootstrap draws as many samples as there are, again and again, as a function of `seed`; a
/// number that is not defined in a draw is left out of its percentiles.
Grading grade(const GradedSamples& samples, const GradingOptions& options, std::uint64_t seed);

/// {"numbers", "intervals", "target_accuracy"}, where they are there.
nlohmann::ordered_json to_json(const Grading& grading, const GradingOptions& options);

/// "quadratic kappa 0.988 (95 % interval 0.986–0.990), referable 99.1 % sensitivity, 98.5 % specificity".
std::string headline(const Grading& grading);

}  // namespace stages
