#include "runner/parent/report/plan_picture.h"

#include <algorithm>
#include <cassert>

#include "runner/shared/text/bytes.h"
#include "runner/parent/svg/plot.h"

namespace runner {
namespace {

constexpr double kPictureWidth = 760, kHeight = 400;
constexpr Frame kFrame = {80, 50, 640, 260};

struct Unit {
  const char* name;
  double bytes;
};

/// In which the axis has handy numbers.
Unit unit_for(std::int64_t most) {
  if (most >= std::int64_t{1} << 30) return {"GiB", 1 << 30};
  if (most >= 1 << 20) return {"MiB", 1 << 20};
  return {"KiB", 1 << 10};
}

/// Each value lasts until the next: a step curve.
std::vector<Point> steps(const std::vector<std::int64_t>& curve, double unit) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double value = static_cast<double>(curve[i]) / unit;
    points.push_back({static_cast<double>(i), value});
    points.push_back({static_cast<double>(i + 1), value});
  }
  return points;
}

/// The phases as bands in turn light and lighter, with their names where there is room.
void draw_phases(Drawing& drawing, const MemoryPlan& plan) {
  const double bottom = kFrame.top + kFrame.height, per_point = kFrame.width / static_cast<double>(plan.curve.size());
  for (std::size_t i = 0; i < plan.phases.size(); ++i) {
    const std::size_t begin = std::min(plan.phases[i].point, plan.curve.size());
    const std::size_t end =
        i + 1 < plan.phases.size() ? std::min(plan.phases[i + 1].point, plan.curve.size()) : plan.curve.size();
    if (begin >= end) continue;
    const double left = kFrame.left + static_cast<double>(begin) * per_point;
    const double width = static_cast<double>(end - begin) * per_point;
    drawing.rectangle({left, kFrame.top}, width, kFrame.height, "heat", i % 2 == 0 ? 0.04 : 0.12, plan.phases[i].phase);
    const double letters = 7.0 * static_cast<double>(plan.phases[i].phase.size());
    if (letters < width) drawing.text({left + width / 2, bottom + 16}, plan.phases[i].phase, Align::kMiddle, "small");
  }
}

}  // namespace

std::string draw_plan(const MemoryPlan& plan, const std::string& name) {
  assert(!plan.curve.empty());
  const std::int64_t most = *std::ranges::max_element(plan.curve);
  std::string description = "live bytes over a step of " + plan.node + ", at most " + size_text(most) + " in " +
                            plan.peak_phase + "; " + size_text(plan.predicted) + " are needed";
  if (plan.budget) description += " of " + size_text(*plan.budget);
  Drawing drawing(kPictureWidth, kHeight, "Memory plan of " + name, description);
  draw_phases(drawing, plan);
  // A budget far above the curve would press it flat: then it is written and not drawn.
  const bool shows_budget = plan.budget && *plan.budget <= 4 * std::max<std::int64_t>(most, 1);
  const std::int64_t top = shows_budget ? std::max(most, *plan.budget) : most;
  const Unit unit = unit_for(top);
  const double points = static_cast<double>(plan.curve.size());
  Plot plot(drawing, kFrame, {"a step, operation by operation", {.low = 0, .high = points, .values = {}, .labels = {}}},
            {unit.name, nice_ticks(0, std::max(1e-9, static_cast<double>(top) / unit.bytes), 8)},
            plan.node + ": live " + size_text(most) + ", needs " + size_text(plan.predicted));
  plot.line(steps(plan.curve, unit.bytes), 1, Stroke::kPlain);
  std::vector<LegendEntry> lines = {{"live bytes", 1}};
  if (shows_budget) {
    const double budget = static_cast<double>(*plan.budget) / unit.bytes;
    plot.dashed({0, budget}, {points, budget});
    lines.push_back({"budget, " + size_text(*plan.budget), 1, true});
  }
  draw_legend(drawing, {kFrame.left + kFrame.width - 140, kFrame.top + kFrame.height + 60}, lines);
  drawing.text({10, kHeight - 10}, shortened(name, 60), Align::kStart, "small");
  return drawing.svg();
}

}  // namespace runner
