#include "runner/parent/page/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "runner/parent/page/event_rows.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/plan_text.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kMostPoints = 600;  // points per line: more than a chart has pixels
constexpr double kChartWidth = 480, kChartHeight = 320;
constexpr Frame kChartFrame{70, 44, 385, 200};
constexpr double kLossRatio = 50;  // a loss axis is logarithmic if its extremes differ by at least
                                   // this factor
constexpr double kLargestDrawn = 1e100;  // larger values are treated as infinite

/// A line of a chart.
struct Curve {
  std::string name;
  std::vector<Point> points;
  int color = 1;
  Stroke stroke = Stroke::kPlain;
};

/// What one chart shows.
struct Quantity {
  std::string name;  // "loss"
  std::vector<Curve> curves = {};
  std::size_t left_out = 0;  // values that are not finite
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Returns the family and the quantity of a recorded metric: "train" and "loss" for "train/loss".
std::pair<std::string, std::string> family_and_quantity(const std::string& metric) {
  const std::size_t slash = metric.find('/');
  if (slash == metric.npos) return {"", metric};
  return {metric.substr(0, slash), metric.substr(slash + 1)};
}

/// Returns the quantity and the curve for a metric; nullopt if no curve shows it.
std::optional<std::pair<std::string, Curve>> curve_of(const std::string& metric) {
  auto [family, quantity] = family_and_quantity(metric);
  if (family == "memory" || family == "evaluate" || metric == kSkippedSteps) return std::nullopt;
  const bool is_of_epoch = family == "train" && quantity.starts_with("epoch_");
  if (is_of_epoch) quantity.erase(0, std::string_view("epoch_").size());
  std::string name = family == "train" ? "training" : family.empty() ? quantity : family;
  if (is_of_epoch) name += ", mean over the epoch";
  const int color = is_of_epoch ? 3 : family == "validation" ? 2 : 1;
  const Stroke stroke = is_of_epoch || family == "validation" ? Stroke::kMarked : Stroke::kThin;
  return std::pair{quantity, Curve{std::move(name), {}, color, stroke}};
}

std::vector<Quantity> quantities_of(const std::string& node, std::span<const MetricLine> lines) {
  std::vector<Quantity> quantities;
  for (const MetricLine& line : lines) {
    if (line.metric.node != node) continue;
    auto place = curve_of(line.metric.name);
    if (!place) continue;
    auto quantity = std::ranges::find(quantities, place->first, &Quantity::name);
    if (quantity == quantities.end())
      quantity = quantities.insert(quantities.end(), Quantity{place->first});
    auto curve = std::ranges::find(quantity->curves, place->second.name, &Curve::name);
    if (curve == quantity->curves.end())
      curve = quantity->curves.insert(curve, std::move(place->second));
    if (std::abs(line.metric.value) < kLargestDrawn)
      curve->points.push_back({static_cast<double>(line.metric.step), line.metric.value});
    else ++quantity->left_out;
  }
  std::erase_if(quantities, [](const Quantity& one) {
    return std::ranges::none_of(one.curves,
                                [](const Curve& curve) { return curve.points.size() > 1; });
  });
  return quantities;
}

/// Returns "validation_accuracy" as "validation accuracy".
std::string in_words(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

/// True if a chart is clear without a legend.
bool needs_no_legend(const std::vector<Curve>& curves, const std::string& quantity) {
  return curves.empty() || (curves.size() == 1 &&
                            (curves.front().name == "training" || curves.front().name == quantity));
}

void draw_lines(Plot& plot, Drawing& drawing, const std::vector<Curve>& curves,
                const std::string& quantity) {
  std::vector<LegendEntry> legend;
  for (const Curve& curve : curves) {
    plot.line(thinned(curve.points, kMostPoints), curve.color, curve.stroke, curve.name);
    legend.push_back({curve.name, curve.color, false, curve.stroke});
  }
  if (needs_no_legend(curves, quantity)) return;
  const double rows = static_cast<double>(legend.size());
  draw_legend(drawing, {kChartFrame.left, kChartHeight - 6 - 17 * (rows - 1)}, legend);
}

Drawing draw(Quantity quantity, const std::string& title) {
  Range steps, values;
  std::string description;
  for (const Curve& curve : quantity.curves) {
    for (const Point& point : curve.points) {
      steps.include(point.x);
      values.include(point.y);
    }
    if (curve.points.empty()) continue;
    description += (description.empty() ? "" : "; ") + curve.name + ": ";
    if (curve.points.size() > 1)
      description += "from " + shown_number(curve.points.front().y) + " to ";
    description += shown_number(curve.points.back().y);
  }
  std::erase_if(quantity.curves, [](const Curve& curve) { return curve.points.empty(); });
  if (quantity.left_out > 0)
    description += "; non-finite values left out: " + std::to_string(quantity.left_out);
  const bool is_logarithmic = quantity.name.find("loss") != std::string::npos && values.low > 0 &&
                              values.high > kLossRatio * values.low;
  if (is_logarithmic) {
    for (Curve& curve : quantity.curves)
      for (Point& point : curve.points) point.y = std::log10(point.y);
  }
  const Ticks ticks = is_logarithmic
                          ? power_ticks(std::log10(values.low), std::log10(values.high), 8)
                          : nice_ticks(values.low, values.high, 7);
  const std::string what = in_words(quantity.name);
  const double legend = 17 * static_cast<double>(quantity.curves.size() - 1);
  Frame frame = kChartFrame;
  frame.height -= std::min(legend, 100.0);
  Drawing drawing(kChartWidth, kChartHeight, what + " of " + title, description);
  Plot plot(
      drawing, frame, {"step", whole_ticks(steps.low, steps.high, 8)},
      {is_logarithmic ? what + " (logarithmic)" : what, ticks, is_logarithmic},
      what + (quantity.left_out > 0 ? ", not finite: " + std::to_string(quantity.left_out) : ""));
  draw_lines(plot, drawing, quantity.curves, quantity.name);
  return drawing;
}

/// Draws the loss and the accuracy first.
std::vector<Drawing> draw_all(std::vector<Quantity> quantities, const std::string& title) {
  const auto rank = [](const Quantity& one) {
    constexpr std::array<std::string_view, 2> kFirst = {"loss", "accuracy"};
    return std::ranges::find(kFirst, one.name) - kFirst.begin();
  };
  std::ranges::stable_sort(quantities, {}, rank);
  std::vector<Drawing> drawings;
  for (Quantity& one : quantities) drawings.push_back(draw(std::move(one), title));
  return drawings;
}

}  // namespace

std::vector<Point> thinned(std::span<const Point> points, std::size_t most) {
  if (points.size() <= most) return {points.begin(), points.end()};
  const std::size_t stretches = (most - 2) / 2, inner = points.size() - 2;
  std::vector<Point> kept = {points.front()};
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + 1 + static_cast<std::ptrdiff_t>(inner * i / stretches);
    const auto end = points.begin() + 1 + static_cast<std::ptrdiff_t>(inner * (i + 1) / stretches);
    auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    if (low > high) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  kept.push_back(points.back());
  return kept;
}

std::vector<Drawing> draw_curves(const std::string& node, const std::string& title,
                                 std::span<const MetricLine> lines) {
  return draw_all(quantities_of(node, lines), title);
}

std::vector<Drawing> draw_compared_curves(const std::string& node, const std::string& title,
                                          std::span<const NamedMetrics> runs) {
  std::vector<Quantity> quantities;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (Quantity& of_run : quantities_of(node, runs[run].lines)) {
      auto quantity = std::ranges::find(quantities, of_run.name, &Quantity::name);
      if (quantity == quantities.end())
        quantity = quantities.insert(quantities.end(), Quantity{of_run.name});
      quantity->left_out += of_run.left_out;
      for (Curve& curve : of_run.curves) {
        curve.name = runs[run].name + ": " + curve.name;
        curve.color = static_cast<int>(run) + 1;
        quantity->curves.push_back(std::move(curve));
      }
    }
  }
  return draw_all(std::move(quantities), title);
}

std::vector<Drawing> draw_memory(const std::string& node, const std::string& title,
                                 std::span<const MetricLine> lines) {
  constexpr std::array<std::string_view, 3> kShown = {"memory/allocated", "memory/reserved",
                                                      "memory/peak"};
  std::vector<Curve> curves = {{"allocated", {}, 1}, {"reserved", {}, 2}, {"peak", {}, 3}};
  double by_plan = 0;  // ratio of the peak to the plan's prediction
  Range steps, bytes;
  bytes.include(0);
  for (const MetricLine& line : lines) {
    if (line.metric.node != node || !(std::abs(line.metric.value) < kLargestDrawn)) continue;
    if (line.metric.name == "memory/peak_by_plan") by_plan = line.metric.value;
    const auto shown = std::ranges::find(kShown, line.metric.name);
    if (shown == kShown.end()) continue;
    const double step = static_cast<double>(line.metric.step);
    curves[static_cast<std::size_t>(shown - kShown.begin())].points.push_back(
        {step, line.metric.value});
    steps.include(step);
    bytes.include(line.metric.value);
  }
  const std::vector<Point>& peaks = curves.back().points;
  const auto planned =
      by_plan > 0 && !peaks.empty() ? std::optional(peaks.back().y / by_plan) : std::nullopt;
  std::erase_if(curves, [](const Curve& curve) { return curve.points.empty(); });
  if (std::ranges::none_of(curves, [](const Curve& curve) { return curve.points.size() > 1; }))
    return {};
  const std::string measured = size_text(static_cast<std::int64_t>(bytes.high));
  const std::string plan =
      planned ? "planned peak of tensor memory, " + size_text(static_cast<std::int64_t>(*planned))
              : "";
  if (planned) bytes.include(*planned);
  const ByteUnit unit = byte_unit_for(bytes.high);
  for (Curve& curve : curves)
    for (Point& point : curve.points) point.y /= unit.bytes;
  Frame frame = kChartFrame;
  frame.height -= 50;
  Drawing drawing(kChartWidth, kChartHeight, "Memory of " + title,
                  "measured over the steps; maximum: " + measured + (planned ? "; " + plan : ""));
  Plot plot(drawing, frame, {"step", whole_ticks(steps.low, steps.high, 8)},
            {unit.name, nice_ticks(0, bytes.high / unit.bytes, 7)}, "memory during training");
  draw_lines(plot, drawing, curves, "memory");
  if (planned) {
    plot.dashed({-HUGE_VAL, *planned / unit.bytes}, {HUGE_VAL, *planned / unit.bytes});
    const std::array<LegendEntry, 1> legend = {{{plan, 1, true}}};
    draw_legend(drawing, {kChartFrame.left + 170, kChartHeight - 6}, legend);
  }
  return {drawing};
}

}  // namespace runner
