#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/classification_metrics.h"

namespace stages {

/// Precision, recall, F1 and support of every class and their means, as a table laid out like scikit-learn's
/// classification_report. `classes`: names by label. Control characters of a name are shown as '?'.
std::string report_text(const ClassificationMetrics& metrics, const std::vector<std::string>& classes);

/// Everything of `metrics` under whole names, keys in a fixed order; the confusion matrix as a list of rows, a row is a
/// true class. It is left out, with null in its place, for more than kLargestMatrix classes.
nlohmann::ordered_json to_json(const ClassificationMetrics& metrics, const std::vector<std::string>& classes);

/// A list of rows, a row is a true class; null for more than kLargestMatrix classes.
nlohmann::ordered_json to_json(const ConfusionMatrix& confusion);

/// Classes up to which a confusion matrix is written.
inline constexpr std::int64_t kLargestMatrix = 2000;

/// "top-1 83.3 % (95 % interval 76.4–88.5 %), mean per class 81.9 %, chance 8.3 %, 144 images".
std::string headline(const ClassificationMetrics& metrics);

}  // namespace stages
