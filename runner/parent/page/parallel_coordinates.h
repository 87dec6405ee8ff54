#pragma once

#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// Draws each trial of a sweep that has an objective value as a line across one axis per key and
/// one for the objective; the best quarter is in color. A numeric axis that spans a factor of more
/// than 50 is logarithmic; values that are not numbers are spread evenly, in order of first
/// appearance. Empty if fewer than two trials have a value, or if no key takes at least two
/// different values.
std::vector<Drawing> draw_parallel_coordinates(const SweepResults& results);

}  // namespace runner
