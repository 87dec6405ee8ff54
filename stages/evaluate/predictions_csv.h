#pragma once

#include <string>
#include <vector>

#include "runner/shared/text/csv.h"
#include "stages/artifact/class_scores.h"
#include "stages/evaluate/classification_metrics.h"
#include "stages/evaluate/predictor.h"

namespace stages {

using runner::csv_field;
using runner::csv_line;

/// Returns a CSV with one line per sample: name,label,predicted,correct,
/// probability,label_probability,top_1,…,top_5. `probability` is the probability of the predicted
/// class; top_1, … are the five best classes, or all classes if there are fewer. If samples have
/// groups, the last column is `group`.
std::string predictions_csv(const ClassifiedSamples& samples,
                            const std::vector<std::string>& classes);

/// Returns a CSV with one row per true class and one column per predicted class, with names.
std::string confusion_csv(const ConfusionMatrix& confusion,
                          const std::vector<std::string>& classes);

}  // namespace stages
