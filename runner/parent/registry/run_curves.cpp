#include "runner/parent/registry/run_curves.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr std::size_t kWidestCurve = 24;  // columns

struct NamedValues {
  std::string node, name;
  std::vector<double> values;  // finite values only, by step
};

std::vector<NamedValues> values_in(const std::filesystem::path& folder) {
  std::vector<NamedValues> all;
  for (const MetricLine& line : read_metrics(RunLayout(folder).metrics()).lines) {
    const NodeMetric& metric = line.metric;
    if (metric.name.starts_with("memory/") || !std::isfinite(metric.value)) continue;
    auto found = std::ranges::find_if(all, [&](const NamedValues& one) {
      return one.node == metric.node && one.name == metric.name;
    });
    if (found == all.end()) found = all.insert(all.end(), {metric.node, metric.name, {}});
    found->values.push_back(metric.value);
  }
  std::erase_if(all, [](const NamedValues& one) { return one.values.size() < 2; });
  return all;
}

}  // namespace

std::string curves_text(const std::filesystem::path& folder, const TextStyle& style) {
  TableRows rows = {{"metric", "node", "first", "last", "curve"}};
  for (const auto& [node, name, values] : values_in(folder)) {
    rows.push_back({printable(name), printable(node), shown_number(values.front()),
                    shown_number(values.back()), curve_line(values, style)});
  }
  return rows.size() > 1 ? table_text(rows, style.table_width()) : "";
}

std::string curve_line(std::span<const double> values, const TextStyle& style) {
  constexpr double kLevels = 1000;
  const double low = std::ranges::min(values), high = std::ranges::max(values);
  std::vector<std::int64_t> levels;
  for (const double value : values) {
    const double share = high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0;
    levels.push_back(1 + static_cast<std::int64_t>(kLevels * share));
  }
  TextStyle narrow = style;
  narrow.width = std::min(style.width, kWidestCurve);
  return sparkline(levels, narrow);
}

}  // namespace runner
