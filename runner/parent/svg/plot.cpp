#include "runner/parent/svg/plot.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <utility>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

struct Step {
  int mantissa = 1, exponent = 0;  // mantissa * 10^exponent
  double size() const {
    return exponent < 0 ? mantissa / std::pow(10.0, -exponent)
                        : mantissa * std::pow(10.0, exponent);
  }
};

Step next(Step step) {
  switch (step.mantissa) {
    case 1:
      return {2, step.exponent};
    case 2:
      return {5, step.exponent};
    default:
      return {1, step.exponent + 1};
  }
}

double marks(double low, double high, double step) {
  return std::ceil(high / step) - std::floor(low / step) + 1;
}

/// Returns the decimal exponent of a value that is not 0.
int exponent_of(double value) {
  constexpr double kRounding = 1e-9;
  return static_cast<int>(std::floor(std::log10(std::abs(value)) + kRounding));
}

/// `exponent` is the exponent of the distance between two ticks, and `largest` that of the largest
/// value.
std::string label(double value, int exponent, int largest) {
  std::array<char, 64> text;
  if (largest <= -4 && largest - exponent < 9) {
    if (value == 0) return "0";
    const int half = -largest / 2;  // 10^-largest may be too large
    const double mantissa = value * std::pow(10.0, half) * std::pow(10.0, -largest - half);
    const auto end = std::to_chars(text.data(), text.data() + text.size(), mantissa,
                                   std::chars_format::fixed, std::max(0, largest - exponent))
                         .ptr;
    return std::string(text.data(), end) + "e" + std::to_string(largest);
  }
  const bool is_extreme = exponent > 5 || exponent < -6;
  const auto result = is_extreme ? std::to_chars(text.data(), text.data() + text.size(), value)
                                 : std::to_chars(text.data(), text.data() + text.size(), value,
                                                 std::chars_format::fixed, std::max(0, -exponent));
  return {text.data(), result.ptr};
}

Ticks ticks(double low, double high, int most, int smallest_exponent) {
  assert(std::isfinite(low) && std::isfinite(high) && most >= 3);
  if (low > high) std::swap(low, high);
  // If both are equal in double precision, the range is a point, but a scale is still needed.
  if (high - low <= 1e-12 * std::max(std::abs(low), std::abs(high))) {
    const double least = low == 0 || smallest_exponent == 0 ? 1 : 0,
                 reach = std::max(std::abs(low) / 2, least);
    low -= reach;
    high += reach;
  }
  Step step{1, std::max(smallest_exponent,
                        static_cast<int>(std::floor(std::log10(high / most - low / most))) - 1)};
  while (marks(low, high, step.size()) > most) step = next(step);
  Ticks result;
  const double first = std::floor(low / step.size()), count = marks(low, high, step.size());
  for (double i = 0; i < count; ++i) {
    const double multiple = (first + i) * step.mantissa;
    const double value = step.exponent < 0 ? multiple / std::pow(10.0, -step.exponent)
                                           : multiple * std::pow(10.0, step.exponent);
    result.values.push_back(value == 0 ? 0 : value);
  }
  const double largest = std::max(std::abs(result.values.front()), std::abs(result.values.back()));
  for (const double value : result.values)
    result.labels.push_back(label(value, step.exponent, exponent_of(largest)));
  result.low = result.values.front();
  result.high = result.values.back();
  return result;
}

}  // namespace

Ticks nice_ticks(double low, double high, int most) { return ticks(low, high, most, -300); }

Ticks whole_ticks(double low, double high, int most) { return ticks(low, high, most, 0); }

namespace {

/// Returns "200" or "5e-4".
std::string power_label(double mantissa, double power) {
  if (power <= -4) return decimal(mantissa, 0) + "e" + decimal(power, 0);
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 mantissa * std::pow(10.0, power), std::chars_format::general, 6);
  return {text.data(), end.ptr};
}

}  // namespace

Ticks power_ticks(double low, double high, int most) {
  assert(std::isfinite(low) && std::isfinite(high) && low <= high && most >= 3);
  constexpr double kRounding = 1e-9;
  const double first = std::floor(low + kRounding), last = std::ceil(high - kRounding);
  const double powers = std::max(1.0, last - first);
  const double stride = std::ceil(powers / (most - 1));
  const bool has_parts = 3 * powers + 1 <= most;
  Ticks result;
  for (double power = first; power < first + powers + stride; power += stride) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      const bool is_beyond = power >= first + powers;
      if (mantissa != 1 && (!has_parts || is_beyond)) break;
      result.labels.push_back(power_label(mantissa, power));
      result.values.push_back(power + std::log10(mantissa));
    }
  }
  result.low = result.values.front();
  result.high = result.values.back();
  return result;
}

namespace {

std::string color_class(const std::string& kind, int color) {
  return kind + std::to_string((color - 1) % 8 + 1);
}

std::string line_style(Stroke stroke, int color) {
  const std::string colored = color_class("color-", color);
  switch (stroke) {
    case Stroke::kMarked:
    case Stroke::kPlain:
      return "line " + colored;
    case Stroke::kThin:
      return "thin " + colored;
    case Stroke::kDash:
      return "thin dash " + colored;
    case Stroke::kDot:
      return "thin dot " + colored;
    case Stroke::kDashDot:
      return "thin dash-dot " + colored;
    case Stroke::kInk:
      return "mark";
  }
  return colored;
}

constexpr double kLetterOfText = 7.2, kLetterOfTitle = 9;  // widths in pixels

/// Returns the width of the labels of the y axis.
double labels_width(const Ticks& ticks) {
  double width = 0;
  for (const std::string& label : ticks.labels)
    width = std::max(width, Drawing::small_width(label));
  return width;
}

/// Returns where the name of the y axis goes, in pixels to the left of the frame.
double name_distance(const Ticks& ticks) { return std::max(46.0, labels_width(ticks) + 14); }

/// Returns the frame, narrower if the y axis needs more than the usual margin.
Frame with_margin(Frame frame, const Ticks& ticks) {
  constexpr double kMargin = 70, kHeightOfName = 14;
  const double more = name_distance(ticks) + kHeightOfName - kMargin;
  if (more <= 0) return frame;
  frame.left += more;
  frame.width = std::max(10.0, frame.width - more);
  return frame;
}

}  // namespace

Plot::Plot(Drawing& drawing, const Frame& wanted, Axis x, Axis y, std::string_view title)
    : drawing_(drawing), frame_(with_margin(wanted, y.ticks)), x_(std::move(x)), y_(std::move(y)) {
  const Frame& frame = frame_;
  const auto fitting = [](std::string_view text, double width, double letter) {
    return shortened(text, static_cast<std::size_t>(std::max(width / letter, 1.0)));
  };
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
  const double reach = 2 * std::min(middle, drawing_.width() - middle);
  drawing_.text({middle, frame.top - 14}, fitting(title, reach, kLetterOfTitle), Align::kMiddle,
                "title");
  drawing_.text({middle, bottom + 36}, x_.label, Align::kMiddle, "text");
  drawing_.text({frame.left - name_distance(y_.ticks), frame.top + frame.height / 2},
                fitting(y_.label, frame.height + 2 * std::min(frame.top, 30.0), kLetterOfText),
                Align::kMiddle, "text", -90);
}

Point Plot::at(double x, double y) const {
  const auto share = [](double value, const Ticks& ticks) {
    return std::clamp((value - ticks.low) / (ticks.high - ticks.low), 0.0, 1.0);
  };
  return {frame_.left + share(x, x_.ticks) * frame_.width,
          frame_.top + (1 - share(y, y_.ticks)) * frame_.height};
}

void Plot::line(std::span<const Point> data, int color, Stroke stroke, std::string_view name) {
  constexpr std::size_t kMostDots = 25;
  std::vector<Point> points;
  for (const Point& one : data) points.push_back(at(one.x, one.y));
  if (!name.empty())
    drawing_.scale({at(x_.ticks.low, y_.ticks.low),
                    at(x_.ticks.high, y_.ticks.high),
                    {x_.ticks.low, y_.ticks.low},
                    {x_.ticks.high, y_.ticks.high},
                    y_.is_logarithmic});
  if (points.size() > 1) drawing_.line(points, line_style(stroke, color), name);
  if ((stroke != Stroke::kMarked && points.size() != 1) || points.size() > kMostDots) return;
  for (const Point& point : points) drawing_.circle(point, 3, color_class("fill-", color));
}

void Plot::dashed(Point from, Point to) {
  drawing_.line(at(from.x, from.y), at(to.x, to.y), "dashed");
}

void Plot::bar(double left, double right, double height, int color, std::string_view tip) {
  const Point top = at(left, height), bottom = at(right, y_.ticks.low);
  drawing_.rectangle(top, bottom.x - top.x, bottom.y - top.y, color_class("fill-", color), 1, tip);
}

void Plot::interval(double x, double low, double high) {
  const Point bottom = at(x, low), top = at(x, high);
  drawing_.line(bottom, top, "mark");
  for (const Point end : {bottom, top})
    drawing_.line({end.x - 5, end.y}, {end.x + 5, end.y}, "mark");
}

void draw_legend(Drawing& drawing, Point at, std::span<const LegendEntry> entries) {
  for (const auto& [name, color, is_dashed, stroke] : entries) {
    drawing.line({at.x, at.y}, {at.x + 22, at.y}, is_dashed ? "dashed" : line_style(stroke, color));
    if (stroke == Stroke::kMarked)
      drawing.circle({at.x + 11, at.y}, 3, color_class("fill-", color));
    drawing.text({at.x + 28, at.y + 4}, name, Align::kStart, "small");
    at.y += 17;
  }
}

std::string shortened(std::string_view text, std::size_t max_length) {
  const std::string clean = printable(text);
  return without_middle(clean, max_length);
}

}  // namespace runner
