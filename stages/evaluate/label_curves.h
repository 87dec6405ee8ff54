#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/evaluate/multi_label_metrics.h"

namespace stages {

/// Returns the contents of curves.json for a multi-label evaluation:
///
///   {"labels", "roc": {"auc_macro", "macro", "micro", "classes"},
///    "precision_recall": {"mean_average_precision", "classes"}, "calibration"}
///
/// "labels" is the number of labels in the test set. The lists contain the curves of the
/// kMostCurves most frequent labels; labels that no sample has are left out. A curve in "roc" is
/// {"class", "auc", "fpr", "tpr"}, and is left out if every sample has the label; a curve in
/// "precision_recall" is {"class", "support", "average_precision", "recall", "precision"}. Both
/// have at most kMostPoints points. "macro", "micro" and "calibration", which
/// classification_curves.h defines, are null. `metrics` is the result of multi_label_metrics() for
/// these logits and labels.
nlohmann::ordered_json label_curves(const at::Tensor& logits, const at::Tensor& labels,
                                    const MultiLabelMetrics& metrics,
                                    const std::vector<std::string>& names);

}  // namespace stages
