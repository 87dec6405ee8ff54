#pragma once

#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/parent/sweep/sweep_results.h"

namespace runner {

/// Draws each trial of a sweep that has a value of the objective as a line across one axis for each
/// key and one for the objective; the best quarter is in color. An axis of numbers that span a
/// factor of more than 50 is logarithmic; other values are spread evenly, in order of first
/// appearance. Empty if fewer than two trials have a value, or no key has two values.
std::vector<Drawing> draw_parallel_coordinates(const SweepResults& results);

}  // namespace runner
