#pragma once

#include <string>

#include "runner/parent/report/recorded_evaluation.h"

namespace runner {

/// confusion_matrix.svg: rows are true classes, columns predicted ones, a cell's colour the share of its row; classes
/// are named up to 20, counts written up to 12. `evaluation` has a matrix.
std::string draw_confusion(const RecordedEvaluation& evaluation, const std::string& name);

/// roc.svg: mean curves over classes and over all pairs, and those of single classes where they are recorded.
std::string draw_roc(const RecordedEvaluation& evaluation, const std::string& name);

/// calibration.svg: how often predictions of each probability are right, above how many there are. `evaluation` has
/// bins.
std::string draw_calibration(const RecordedEvaluation& evaluation, const std::string& name);

}  // namespace runner
