#pragma once

#include <string>

#include "runner/parent/report/paired_comparison.h"
#include "runner/parent/report/recorded_evaluation.h"

namespace runner {

/// episodes.svg: how many episodes of a few-shot model had which accuracy, with their mean and its
/// interval. `evaluation` has episodes.
std::string draw_episodes(const RecordedEvaluation& evaluation, const std::string& name);

/// paired_differences.svg: by how much the one model was better than the other in how many
/// episodes, with the mean and its interval. A difference of 0 has a bar of its own.
std::string draw_difference(const PairedDifference& difference);

}  // namespace runner
