#pragma once

#include <span>
#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// Draws the means of trials with their 95% intervals, one chart for each key that `what` names:
/// "train.epochs" for "train.epochs=5". Leaves out means with several keys, and charts with a
/// single value or with more than 20.
std::vector<Drawing> draw_means(std::span<const TrialMean> means, const Objective& objective);

}  // namespace runner
