#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// `text` as one field: in quotes, its own quotes doubled, where it holds a comma, a quote or a line break (RFC 4180).
std::string csv_field(std::string_view text);

/// At least one field as a line, with a line feed at its end.
std::string csv_line(const std::vector<std::string>& fields);

/// A line each sample: name,label,predicted,correct,probability,top_1,…,top_5. The probability is that of the predicted
/// class; top_1 … are the five best classes, or all if there are fewer.
std::string predictions_csv(const ClassifiedSamples& samples, const std::vector<std::string>& classes);

/// A line each true class, a column each predicted one, with names.
std::string confusion_csv(const ConfusionMatrix& confusion, const std::vector<std::string>& classes);

}  // namespace stages
