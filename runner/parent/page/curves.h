#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/parent/svg/drawing.h"
#include "runner/shared/record/metrics_file.h"

namespace runner {

/// Returns at most `most` of `points`, which are sorted by x: the first, the last, and the lowest
/// and highest of each of many equal intervals, so that no extreme is lost. `most` must be at least
/// 4.
std::vector<Point> thinned(std::span<const Point> points, std::size_t most);

/// Draws the metrics of a training node over its steps, one chart per quantity: training and
/// validation loss, accuracy, learning rate, and so on. A loss that spans a factor of more than 50
/// gets a logarithmic axis. `title` is the node's display name; `lines` are the metrics of all
/// nodes. Values that are not finite are left out, and the chart says how many. Empty if nothing
/// was measured at two or more steps.
std::vector<Drawing> draw_curves(const std::string& node, const std::string& title,
                                 std::span<const MetricLine> lines);

/// The metrics of a run, with its name in a comparison.
struct NamedMetrics {
  std::string name;
  std::span<const MetricLine> lines;
};

/// Draws the metrics of a training node in several runs on the same charts, with one color per run.
std::vector<Drawing> draw_compared_curves(const std::string& node, const std::string& title,
                                          std::span<const NamedMetrics> runs);

/// Draws how many bytes a training node allocated and reserved over its steps, along with the peak
/// predicted by its plan, if recorded. Empty if nothing was measured at two or more steps.
std::vector<Drawing> draw_memory(const std::string& node, const std::string& title,
                                 std::span<const MetricLine> lines);

}  // namespace runner
