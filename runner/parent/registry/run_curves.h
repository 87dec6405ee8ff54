#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "runner/parent/report/plan_text.h"

namespace runner {

/// Returns a table of the metrics that the run in `folder` measured at two or more steps: each
/// metric's first and last value, and all its values as a sparkline scaled from the lowest to the
/// highest. Memory metrics are left out. Empty if there are no such metrics.
std::string curves_text(const std::filesystem::path& folder, const TextStyle& style);

/// Returns finite values (at least one) as a sparkline scaled from the lowest to the highest, in at
/// most 24 columns.
std::string curve_line(std::span<const double> values, const TextStyle& style);

}  // namespace runner
