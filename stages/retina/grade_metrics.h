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

/// The confusion matrix of the grades; grades are in order, from 0.
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

/// Quadratic weighted kappa, agreement beyond chance with larger errors weighted more: 1 - sum(w O)
/// / sum(w E) with w = (i - j)^2 / (grades - 1)^2 (Cohen 1968), as scikit-learn's
/// cohen_kappa_score(weights="quadratic"). nullopt if all samples and predictions are of one grade.
std::optional<double> quadratic_kappa(const GradeCounts& counts);

/// The quality of a yes/no decision: sensitivity, the share of positives that it finds, and
/// specificity, the share of negatives that it leaves alone. nullopt if there are none.
struct DecisionQuality {
  std::optional<double> sensitivity, specificity;
};
DecisionQuality quality_of_grade(const GradeCounts& counts, std::int64_t grade);
/// For referring every sample of grade `from` or above to a doctor.
DecisionQuality quality_of_referral(const GradeCounts& counts, std::int64_t from);

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// accuracy, weighted_precision, weighted_recall, weighted_f1, quadratic_kappa,
/// referable_sensitivity, referable_specificity, and for each grade sensitivity/NAME,
/// specificity/NAME, precision/NAME and f1/NAME: those that are defined, always in this order.
/// Precision and F1 match scikit-learn's with zero_division=0. Needs at least one sample.
NamedNumbers grade_numbers(const GradeCounts& counts, const std::vector<std::string>& names,
                           std::optional<std::int64_t> referable_from);

/// The common options of evaluations of grades.
struct GradingOptions {
  std::optional<std::int64_t> referable_from;  ///< the lowest grade that is referred
  std::optional<double> target_accuracy;
  std::int64_t bootstrap = 0;  ///< number of bootstrap draws for the intervals
};

/// Reads referable_from, target_accuracy and bootstrap.
GradingOptions read_grading_options(runner::ConfigReader& reader);

/// Samples with known grades, and their predictions.
struct GradedSamples {
  std::vector<std::string> grades;      ///< grade names, in order
  std::vector<std::int64_t> labels;     ///< true grade of each sample
  std::vector<std::int64_t> predicted;  ///< predicted grade of each sample
  std::vector<double>
      scores;  ///< (samples, grades), row by row: the score that ranks the samples for each grade
};

struct NumberInterval {
  double low = 0, high = 0;
};

/// The metrics of a grading: the numbers of grade_numbers(), auc/NAME for each grade that some
/// samples have and others do not, and auc_weighted, the mean of these weighted by the grades'
/// samples.
struct Grading {
  GradeCounts counts{0};
  NamedNumbers numbers;
  std::map<std::string, NumberInterval>
      intervals;  ///< 95 % intervals: percentiles over the draws; by name
};

/// Needs at least one sample. The bootstrap repeatedly draws as many samples as there are, as a
/// function of `seed`; if a number is not defined in a draw, that draw is left out of its
/// percentiles.
Grading grade(const GradedSamples& samples, const GradingOptions& options, std::uint64_t seed);

/// {"numbers", "intervals", "target_accuracy"}, if present.
nlohmann::ordered_json to_json(const Grading& grading, const GradingOptions& options);

/// "quadratic kappa 0.9880 (95 % interval 0.9860–0.9900), referable: 99.1 % sensitivity, 98.5 %
/// specificity".
std::string headline(const Grading& grading);

struct GradeReportOptions {
  GradingOptions grading;
  std::int64_t calibration_bins = 0;
  bool csv = false;  ///< writes predictions.csv: an option of the stage itself
};

/// Reads the options of an evaluation of grades, except those for running a network.
GradeReportOptions read_grade_report_options(runner::ConfigReader& reader);

/// Throws runner::StageError if the test set has no labels, or referable_from is beyond the
/// `grades`.
void check_grades(const Dataset& test, const std::vector<std::string>& grades,
                  const GradingOptions& options);

/// Graded samples to report; all but the last two members are borrowed.
struct GradesToReport {
  const ClassifiedSamples& samples;  ///< their logits are log probabilities, up to a constant
  const GradedSamples& graded;
  const Checkpoint& checkpoint;
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();  ///< further members of
                                                                      ///< metrics.json
  NamedNumbers numbers = {};                                          ///< further metrics
};

/// Writes everything that an evaluation of classes writes except predictions.csv, with "grading" in
/// metrics.json, records the numbers and logs the headlines. Outputs "metrics" and "predictions".
runner::Outputs report_grades(const GradesToReport& grades, const GradeReportOptions& options,
                              runner::RunContext& context);

/// Stand-ins for the outputs of report_grades().
runner::Outputs planned_results(std::int64_t samples, std::int64_t grades);

}  // namespace stages
