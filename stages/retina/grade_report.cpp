#include "stages/retina/grade_report.h"

#include <algorithm>
#include <string_view>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/classification_outputs.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// Those that a classification does not record by another name.
bool is_recorded(std::string_view name) {
  return name != "accuracy" && !name.starts_with("weighted_") && !name.starts_with("precision/") &&
         !name.starts_with("f1/");
}

}  // namespace

GradeReportOptions read_grade_report_options(runner::ConfigReader& reader) {
  GradeReportOptions options;
  options.grading = read_grading_options(reader);
  reader.read("calibration_bins", options.calibration_bins);
  reader.read("csv", options.csv);
  return options;
}

void check_grades(const Dataset& test, const std::vector<std::string>& grades, const GradingOptions& options) {
  const DatasetDescription described = test.describe();
  if (std::ranges::find(described.tensors, "label", &TensorSpec::name) == described.tensors.end()) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the test set has no labels")
        .with_help("evaluation compares predictions with labels: wire a labelled data set");
  }
  if (options.referable_from && *options.referable_from >= std::ssize(grades)) {
    throw StageError(ErrorCode::kOptionConflict, "referable_from is " + std::to_string(*options.referable_from) +
                                                     ", and the grades go from 0 to " +
                                                     std::to_string(grades.size() - 1))
        .at("/referable_from")
        .with_help("set it to one of them above 0, or to null");
  }
}

runner::Outputs report_grades(const GradesToReport& grades, const GradeReportOptions& options,
                              runner::RunContext& context) {
  const ClassifiedSamples& samples = grades.samples;
  const Grading grading = grade(grades.graded, options.grading, context.node().seed);
  const ClassificationMetrics metrics =
      classification_metrics(samples.logits, samples.labels, /*top_k=*/{}, /*present=*/{}, samples.predicted);
  Classified classified{samples, metrics, grades.graded.grades, grades.checkpoint};
  classified.besides["grading"] = to_json(grading, options.grading);
  classified.besides.update(grades.besides);
  for (const auto& number : grading.numbers) {
    if (is_recorded(number.first)) classified.values.push_back(number);
  }
  classified.values.insert(classified.values.end(), grades.numbers.begin(), grades.numbers.end());
  runner::Outputs outputs =
      report_classification(classified, {.csv = false, .calibration_bins = options.calibration_bins}, context);
  context.say(headline(grading));
  if (options.grading.target_accuracy && metrics.top1 < *options.grading.target_accuracy)
    context.say("the accuracy is below target_accuracy");
  return outputs;
}

runner::Outputs planned_results(std::int64_t samples, std::int64_t grades) {
  const auto predictions = std::make_shared<Predictions>();
  predictions->scores = torch::empty({samples, grades}, at::TensorOptions(at::kFloat).device(at::kMeta));
  predictions->labels = torch::empty({samples}, at::TensorOptions(at::kLong).device(at::kMeta));
  return {{"metrics", std::make_shared<Metrics>()}, {"predictions", predictions}};
}

}  // namespace stages
