#pragma once

#include <string>

#include "runner/parent/report/paired_comparison.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/svg/drawing.h"

namespace runner {

/// Draws episodes.svg: a histogram of a few-shot model's accuracies over episodes, with their mean
/// and its confidence interval. `evaluation` must have episodes.
Drawing draw_episodes(const RecordedEvaluation& evaluation, const std::string& name);

/// Draws paired_differences.svg: a histogram, over episodes, of how much better one model was than
/// the other, with the mean and its confidence interval. A difference of 0 has its own bar.
Drawing draw_difference(const PairedDifference& difference);

}  // namespace runner
