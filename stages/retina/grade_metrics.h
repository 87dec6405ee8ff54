#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/evaluate/predictor.h"

namespace runner {
class ConfigReader;
}

namespace runner {
class ConfigReader;
class RunContext;
}  // namespace runner

namespace stages {

/// How often samples of each grade were given each grade; grades stand in their order, from 0.
class GradeCounts {
 public:
  explicit GradeCounts(std::int64_t grades)
      : grades_(grades), counts_(static_cast<std::size_t>(grades * grades)) {}

  void add(std::int64_t truth, std::int64_t predicted, std::int64_t times = 1) {
    counts_[static_cast<std::size_t>(truth * grades_ + predicted)] += times;
  }

  std::int64_t grades() const { return grades_; }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const {
    return counts_[static_cast<std::size_t>(truth * grades_ + predicted)];
  }
  std::int64_t support(std::int64_t truth) const;
  std::int64_t predictions(std::int64_t predicted) const;
  std::int64_t samples() const;

 private:
  std::int64_t grades_;
  std::vector<std::int64_t> counts_;  // rows: true grades
};

/// Agreement beyond chance, where a prediction counts less the further it is off: 1 - sum(w O) /
/// sum(w E) with w = (i - j)^2 / (grades - 1)^2 (Cohen 1968), as scikit-learn's
/// cohen_kappa_score(weights="quadratic"). nullopt where all samples and predictions are of one
/// grade.
std::optional<double> quadratic_kappa(const GradeCounts& counts);

/// Of a decision that is right or wrong: how many of those that it is about it finds, and how many
/// of the others it leaves alone. nullopt where there are none.
struct DecisionQuality {
  std::optional<double> sensitivity, specificity;
};
DecisionQuality quality_of_grade(const GradeCounts& counts, std::int64_t grade);
/// Of referring every sample of grade `from` or above to a doctor.
DecisionQuality quality_of_referral(const GradeCounts& counts, std::int64_t from);

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// accuracy, weighted_precision, weighted_recall, weighted_f1, quadratic_kappa,
/// referable_sensitivity, referable_specificity, and for each grade sensitivity/NAME,
/// specificity/NAME, precision/NAME and f1/NAME: those that are defined, always in this order.
/// Precision and F1 are as scikit-learn's with zero_division=0. At least one sample.
NamedNumbers grade_numbers(const GradeCounts& counts, const std::vector<std::string>& names,
                           std::optional<std::int64_t> referable_from);

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
  std::vector<double>
      scores;  ///< (samples, grades), row by row: what ranks the samples for each grade
};

struct NumberInterval {
  double low = 0, high = 0;
};

/// How good a grading is. The numbers are those of grade_numbers(), auc/NAME for each grade that
/// some samples have and some have not, and auc_weighted, their mean by the grades' samples.
struct Grading {
  GradeCounts counts{0};
  NamedNumbers numbers;
  std::map<std::string, NumberInterval>
      intervals;  ///< of 95 %: percentiles over the draws; by name
};

/// Of at least one sample. Bootstrap draws as many samples as there are, again and again, as a
/// function of `seed`; a number that is not defined in a draw is left out of its percentiles.
Grading grade(const GradedSamples& samples, const GradingOptions& options, std::uint64_t seed);

/// {"numbers", "intervals", "target_accuracy"}, where they are there.
nlohmann::ordered_json to_json(const Grading& grading, const GradingOptions& options);

/// "quadratic kappa 0.988 (95 % interval 0.986–0.990), referable 99.1 % sensitivity, 98.5 %
/// specificity".
std::string headline(const Grading& grading);

struct GradeReportOptions {
  GradingOptions grading;
  std::int64_t calibration_bins = 0;
  bool csv = false;  ///< writes predictions.csv: the stage's own
};

/// Reads the options of an evaluation of grades, but for how a network is run.
GradeReportOptions read_grade_report_options(runner::ConfigReader& reader);

/// Throws runner::StageError where the test set has no labels, or referable_from is beyond the
/// `grades`.
void check_grades(const Dataset& test, const std::vector<std::string>& grades,
                  const GradingOptions& options);

/// Samples that were graded; all but the last two is borrowed.
struct GradesToReport {
  const ClassifiedSamples&
      samples;  ///< their logits are the logarithms of probabilities, but for a sum
  const GradedSamples& graded;
  const Checkpoint& checkpoint;
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();  ///< more of metrics.json
  NamedNumbers numbers = {};                                          ///< more metrics
};

/// Writes all that an evaluation of classes writes but predictions.csv, with "grading" in
/// metrics.json, records the numbers and says the headlines. Puts out "metrics" and "predictions".
runner::Outputs report_grades(const GradesToReport& grades, const GradeReportOptions& options,
                              runner::RunContext& context);

/// Stand-ins for what that puts out.
runner::Outputs planned_results(std::int64_t samples, std::int64_t grades);

}  // namespace stages
