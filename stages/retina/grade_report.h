#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/artifact/dataset.h"
#include "stages/retina/grade_metrics.h"
#include "stages/evaluate/predictor.h"

namespace runner {
class ConfigReader;
class RunContext;
}  // namespace runner

namespace stages {

struct GradeReportOptions {
  GradingOptions grading;
  std::int64_t calibration_bins = 0;
  bool csv = false;  ///< writes predictions.csv: the stage's own
};

/// Reads the options of an evaluation of grades, but for how a network is run.
GradeReportOptions read_grade_report_options(runner::ConfigReader& reader);

/// Throws runner::StageError where the test set has no labels, or referable_from is beyond the `grades`.
void check_grades(const Dataset& test, const std::vector<std::string>& grades, const GradingOptions& options);

/// Samples that were graded; all but the last two is borrowed.
struct GradesToReport {
  const ClassifiedSamples& samples;  ///< their logits are the logarithms of probabilities, but for a sum
  const GradedSamples& graded;
  const Checkpoint& checkpoint;
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();  ///< more of metrics.json
  NamedNumbers numbers = {};                                          ///< more metrics
};

/// Writes all that an evaluation of classes writes but predictions.csv, with "grading" in metrics.json, records the
/// numbers and says the headlines. Puts out "metrics" and "predictions".
runner::Outputs report_grades(const GradesToReport& grades, const GradeReportOptions& options,
                              runner::RunContext& context);

/// Stand-ins for what that puts out.
runner::Outputs planned_results(std::int64_t samples, std::int64_t grades);

}  // namespace stages
