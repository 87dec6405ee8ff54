#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/checkpoint.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"

namespace runner {
class ConfigReader;
class RunContext;
}  // namespace runner

namespace stages {

/// The options of every evaluation that tells classes.
struct ReportOptions {
  std::vector<std::int64_t> top_k;  ///< ascending
  bool csv = false;                 ///< writes predictions.csv
  std::int64_t calibration_bins = kCalibrationBins;
};

ReportOptions read_report_options(runner::ConfigReader& reader);

/// What an evaluation has found out; all of it is borrowed but the last two.
struct Classified {
  const ClassifiedSamples& samples;
  const ClassificationMetrics& metrics;
  const std::vector<std::string>& classes;  ///< a name for each column of the logits
  const Checkpoint& checkpoint;
  nlohmann::ordered_json besides = nlohmann::ordered_json::object();  ///< more of metrics.json
  std::vector<std::pair<std::string, double>> values = {};            ///< more metrics, in their order
};

/// Writes metrics.json, evaluation_results.json, curves, report.txt, the confusion matrix and, where that is wanted,
/// predictions.csv into the node's folder, says the headline and what is left out, and gives what every such evaluation
/// puts out: "metrics" and "predictions".
runner::Outputs report_classification(const Classified& classified, const ReportOptions& options,
                                      runner::RunContext& context);

}  // namespace stages
