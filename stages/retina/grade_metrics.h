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
#include "stages/evaluate/bootstrap.h"
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

/// Returns the quadratic weighted kappa: agreement beyond chance, with larger errors weighted more.
/// It is 1 - sum(w O) / sum(w E) with w = (i - j)^2 / (grades - 1)^2 (Cohen 1968), like
/// scikit-learn's cohen_kappa_score(weights="quadratic"). Returns nullopt if all samples and
/// predictions have the same grade.
std::optional<double> quadratic_kappa(const GradeCounts& counts);

/// Returns the mean absolute error in grades: how many grades a prediction is from the true grade,
/// on average. There must be at least one sample.
double mean_absolute_error(const GradeCounts& counts);

/// The quality of a yes/no decision: sensitivity is the share of positives detected, and
/// specificity the share of negatives that are not. Sensitivity is nullopt if there are no
/// positives; specificity, if there are no negatives.
struct DecisionQuality {
  std::optional<double> sensitivity, specificity;
};
/// Returns how well `grade` is distinguished from all other grades.
DecisionQuality quality_of_grade(const GradeCounts& counts, std::int64_t grade);
/// Returns how well samples of grade `from` or above are selected for referral to a doctor.
DecisionQuality quality_of_referral(const GradeCounts& counts, std::int64_t from);

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Returns the metrics that are defined, always in this order: accuracy, weighted_precision,
/// weighted_recall, weighted_f1, quadratic_kappa, mean_absolute_error, referable_sensitivity,
/// referable_specificity, and for each grade sensitivity/NAME, specificity/NAME, precision/NAME and
/// f1/NAME. Precision and F1 match scikit-learn's with zero_division=0. There must be at least one
/// sample.
NamedNumbers grade_numbers(const GradeCounts& counts, const std::vector<std::string>& names,
                           std::optional<std::int64_t> referable_from);

/// The options shared by all stages that evaluate grades.
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
      scores;  ///< (samples, grades), row by row: the scores that rank the samples for each grade
};

/// The metrics of a grading: the numbers from grade_numbers(); auc/NAME for each grade that some
/// samples have and others do not; and auc_weighted, the mean of these areas, weighted by the
/// number of samples of each grade.
struct Grading {
  GradeCounts counts{0};
  NamedNumbers numbers;
  std::map<std::string, NumberInterval>
      intervals;  ///< 95% confidence intervals by name: percentiles over the bootstrap draws
};

/// Computes the metrics; there must be at least one sample. The bootstrap repeatedly draws as many
/// samples as there are; the draws are determined by `seed`. If a number is undefined in a draw,
/// that draw is left out of the number's percentiles.
Grading grade(const GradedSamples& samples, const GradingOptions& options, std::uint64_t seed);

/// Returns {"numbers", "intervals", "referable_from", "target_accuracy"}; the last three only if
/// they are set.
nlohmann::ordered_json to_json(const Grading& grading, const GradingOptions& options);

/// Returns "quadratic kappa 0.9880 (95% interval 0.9860–0.9900), mean absolute error 0.0480 (95%
/// interval 0.0410–0.0550), referable: 99.1% sensitivity, 98.5% specificity".
std::string headline(const Grading& grading);

struct GradeReportOptions {
  GradingOptions grading;
  std::int64_t calibration_bins = 0;
  bool csv = false;  ///< write predictions.csv; used by the stage, not by report_grades()
};

/// Reads the options for evaluating grades, except those for running a network.
GradeReportOptions read_grade_report_options(runner::ConfigReader& reader);

/// Throws runner::StageError if the test set has no labels, or if referable_from is not one of
/// `grades`.
void check_grades(const Dataset& test, const std::vector<std::string>& grades,
                  const GradingOptions& options);

/// Graded samples to report. All members except the last two are borrowed.
struct GradesToReport {
  const ClassifiedSamples& samples;  ///< their logits are log probabilities, up to a constant
  const GradedSamples& graded;
  const Checkpoint& checkpoint;
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();  ///< further members of
                                                                      ///< metrics.json
  NamedNumbers numbers = {};                                          ///< additional metrics
};

/// Writes the files of a classification evaluation except predictions.csv, with "grading" in
/// metrics.json. Records the numbers and logs the headlines. Returns the outputs "metrics" and
/// "predictions".
runner::Outputs report_grades(const GradesToReport& grades, const GradeReportOptions& options,
                              runner::RunContext& context);

/// Returns the outputs of report_grades() with Meta tensors, for use in a plan.
runner::Outputs planned_results(std::int64_t samples, std::int64_t grades);

}  // namespace stages
