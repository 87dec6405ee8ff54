#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The predictions of an evaluation for one target.
struct TargetPredictions {
  std::string target;        ///< empty if the evaluation has only one target
  std::vector<Point> pairs;  ///< x: the true value; y: the predicted value
};

/// Reads nodes/<node>/predictions.csv of a run's `folder`, with the columns target and prediction,
/// or target_NAME and prediction_NAME. Empty if there is no such file, or if it has no such
/// columns; kDamagedRecord if it is malformed.
Result<std::vector<TargetPredictions>> read_target_predictions(const std::filesystem::path& folder,
                                                               const std::string& node);

/// Draws predictions.svg: for each target, the predictions against the true values on the left and
/// the residuals (true - predicted) against the predictions on the right. Draws at most
/// kMostDrawnPairs samples per target, evenly spaced, and at most kMostDrawnTargets targets.
Drawing draw_predictions(const std::vector<TargetPredictions>& targets, const std::string& name);
inline constexpr std::size_t kMostDrawnPairs = 5000, kMostDrawnTargets = 20;

}  // namespace runner
