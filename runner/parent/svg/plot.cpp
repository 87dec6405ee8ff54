#include "runner/parent/svg/plot.h"

#include <algorithm>
#include <utility>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

std::string color_class(const char* kind, int color) { return kind + std::to_string((color - 1) % 8 + 1); }

}  // namespace

Plot::Plot(Drawing& drawing, const Frame& frame, Axis x, Axis y, std::string_view title)
    : drawing_(drawing), frame_(frame), x_(std::move(x)), y_(std::move(y)) {
  const double right = frame.left + frame.width, bottom = frame.top + frame.height;
  for (std::size_t i = 0; i < y_.ticks.values.size(); ++i) {
    const double y = at(x_.ticks.low, y_.ticks.values[i]).y;
    drawing_.line({frame.left, y}, {right, y}, "grid");
    drawing_.text({frame.left - 8, y + 4}, y_.ticks.labels[i], Align::kEnd, "small");
  }
  for (std::size_t i = 0; i < x_.ticks.values.size(); ++i) {
    const double x = at(x_.ticks.values[i], y_.ticks.low).x;
    drawing_.line({x, bottom}, {x, bottom + 4}, "axis");
    drawing_.text({x, bottom + 17}, x_.ticks.labels[i], Align::kMiddle, "small");
  }
  drawing_.line({frame.left, frame.top}, {frame.left, bottom}, "axis");
  drawing_.line({frame.left, bottom}, {right, bottom}, "axis");
  const double middle = frame.left + frame.width / 2;
  drawing_.text({middle, frame.top - 14}, title, Align::kMiddle, "title");
  drawing_.text({middle, bottom + 36}, x_.label, Align::kMiddle, "text");
  drawing_.text({frame.left - 46, frame.top + frame.height / 2}, y_.label, Align::kMiddle, "text", -90);
}

Point Plot::at(double x, double y) const {
  const auto share = [](double value, const Ticks& ticks) {
    return std::clamp((value - ticks.low) / (ticks.high - ticks.low), 0.0, 1.0);
  };
  return {frame_.left + share(x, x_.ticks) * frame_.width, frame_.top + (1 - share(y, y_.ticks)) * frame_.height};
}

void Plot::line(std::span<const Point> data, int color, Stroke stroke) {
  constexpr std::size_t kMostDots = 25;
  std::vector<Point> points;
  for (const Point& one : data) points.push_back(at(one.x, one.y));
  const char* kind = stroke == Stroke::kThin ? "thin " : "line ";
  if (points.size() > 1) drawing_.line(points, kind + color_class("color-", color));
  if (stroke != Stroke::kMarked || points.size() > kMostDots) return;
  for (const Point& point : points) drawing_.circle(point, 3, color_class("fill-", color));
}

void Plot::dashed(Point from, Point to) { drawing_.line(at(from.x, from.y), at(to.x, to.y), "dashed"); }

void Plot::bar(double left, double right, double height, int color, std::string_view tip) {
  const Point top = at(left, height), bottom = at(right, y_.ticks.low);
  drawing_.rectangle(top, bottom.x - top.x, bottom.y - top.y, color_class("fill-", color), 1, tip);
}

void Plot::interval(double x, double low, double high) {
  const Point bottom = at(x, low), top = at(x, high);
  drawing_.line(bottom, top, "mark");
  for (const Point end : {bottom, top}) drawing_.line({end.x - 5, end.y}, {end.x + 5, end.y}, "mark");
}

void draw_legend(Drawing& drawing, Point at, std::span<const LegendEntry> entries) {
  for (const auto& [name, color, is_dashed] : entries) {
    drawing.line({at.x, at.y}, {at.x + 22, at.y}, is_dashed ? "dashed" : "line " + color_class("color-", color));
    drawing.text({at.x + 28, at.y + 4}, name, Align::kStart, "small");
    at.y += 17;
  }
}

std::string shortened(std::string_view text, std::size_t most) {
  const std::string clean = printable(text);
  if (columns(clean) <= most) return clean;
  return std::string(first_columns(clean, most - 1)) + "…";
}

}  // namespace runner
