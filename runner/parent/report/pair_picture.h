#pragma once

#include <string>

#include "runner/parent/report/recorded_evaluation.h"

namespace runner {

/// How well the network of each pair of classes tells these two apart, as a matrix of colours: an SVG document. `name`
/// is the run's. There is at least one pair; of several networks for one pair it is their mean.
std::string draw_pairs(const RecordedEvaluation& evaluation, const std::string& name);

}  // namespace runner
