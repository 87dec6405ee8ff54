#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/text/csv.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"

namespace stages {

using runner::csv_field;
using runner::csv_line;

/// A line each sample: name,label,predicted,correct,probability,top_1,…,top_5. The probability is that of the predicted
/// class; top_1 … are the five best classes, or all if there are fewer.
std::string predictions_csv(const ClassifiedSamples& samples, const std::vector<std::string>& classes);

/// A line each true class, a column each predicted one, with names.
std::string confusion_csv(const ConfusionMatrix& confusion, const std::vector<std::string>& classes);

}  // namespace stages
