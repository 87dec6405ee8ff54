#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// scikit-learn's classification_report(labels=all of them, target_names=classes, output_dict=True, zero_division=0):
/// by name of a class its precision, recall, f1-score and support, then accuracy, "macro avg" and "weighted avg". Of
/// several classes of one name the last is there, in the first's place.
nlohmann::ordered_json report_dict(const ClassificationMetrics& metrics, const std::vector<std::string>& classes);

/// The text of evaluation_results.json, one line per field: test_loss, test_accuracy, predictions and labels (a number
/// of a class for each sample), confusion_matrix (rows: true classes; null for more than kLargestMatrix) and
/// classification_report.
std::string evaluation_results(const ClassifiedSamples& samples, const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes);

}  // namespace stages
