#include "runner/parent/page/parallel_coordinates.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "runner/parent/registry/run_entry.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/finite_number.h"

namespace runner {
namespace {

constexpr double kAxisTop = 60, kAxisLength = 220, kAcross = 150, kLeft = 80, kBottom = 40;
constexpr double kAxisRatio = 50;
constexpr std::size_t kMostMarks = 12;  // maximum number of labels on an axis

/// A vertical axis: what it stands for, its labels, and where each trial crosses it.
struct Coordinate {
  std::string name;
  std::vector<std::pair<double, std::string>> marks = {};  // positions from 0, the lower end, to 1,
                                                           // and labels
  std::vector<double> places = {};                         // one for each trial
};

Coordinate of_numbers(std::string name, const std::vector<double>& values) {
  const double low = std::ranges::min(values), high = std::ranges::max(values);
  const bool is_logarithmic = low > 0 && high > kAxisRatio * low;
  const auto scale = [&](double value) { return is_logarithmic ? std::log10(value) : value; };
  const double range = scale(high) - scale(low);
  const auto place = [&](double value) {
    return range > 0 ? (scale(value) - scale(low)) / range : 0.5;
  };
  Coordinate axis{std::move(name)};
  for (const double value : values) axis.places.push_back(place(value));
  std::vector<double> marks = values;
  std::ranges::sort(marks);
  marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
  if (marks.size() > kMostMarks) marks = {low, high};
  for (const double mark : marks) axis.marks.emplace_back(place(mark), shown_number(mark));
  return axis;
}

Coordinate of_names(std::string name, const std::vector<std::string>& values) {
  std::vector<std::string> distinct;
  for (const std::string& value : values)
    if (std::ranges::find(distinct, value) == distinct.end()) distinct.push_back(value);
  const auto place = [&](std::size_t index) {
    return distinct.size() > 1
               ? static_cast<double>(index) / static_cast<double>(distinct.size() - 1)
               : 0.5;
  };
  Coordinate axis{std::move(name)};
  for (const std::string& value : values)
    axis.places.push_back(
        place(static_cast<std::size_t>(std::ranges::find(distinct, value) - distinct.begin())));
  for (std::size_t i = 0; i < distinct.size() && i < kMostMarks; ++i)
    axis.marks.emplace_back(place(i), shortened(distinct[i], 16));
  return axis;
}

Coordinate of_key(const std::string& key, const std::vector<const TrialResult*>& trials) {
  std::vector<std::string> texts;
  std::vector<double> numbers;
  for (const TrialResult* trial : trials) {
    const auto found = trial->settings.find(key);
    texts.push_back(found == trial->settings.end() ? "–" : found->second);
    if (const auto number = finite_number(texts.back())) numbers.push_back(*number);
  }
  return numbers.size() == texts.size() ? of_numbers(key, numbers) : of_names(key, texts);
}

double x_of(std::size_t axis) { return kLeft + kAcross * static_cast<double>(axis); }
double y_of(double place) { return kAxisTop + (1 - place) * kAxisLength; }

/// Returns the first and the last mark, and each mark between them that has room for its label.
std::vector<std::pair<double, std::string>> apart(
    std::vector<std::pair<double, std::string>> marks) {
  constexpr double kRow = 11;
  if (marks.size() < 3) return marks;
  std::ranges::sort(marks);
  const double top = y_of(marks.back().first);
  double last = y_of(marks.front().first);
  const auto overlaps = [&](const auto& mark) {
    const double y = y_of(mark.first);
    if (last - y < kRow || y - top < kRow) return true;
    last = y;
    return false;
  };
  marks.erase(std::remove_if(marks.begin() + 1, marks.end() - 1, overlaps), marks.end() - 1);
  return marks;
}

/// The labels are on the left or, for the last axis, on the right, where no line ends.
void draw_axis(Drawing& drawing, const Coordinate& axis, std::size_t number, bool is_last) {
  const double x = x_of(number), side = is_last ? 1 : -1;
  drawing.line({x, kAxisTop}, {x, kAxisTop + kAxisLength}, "axis");
  drawing.text({x, kAxisTop - 14}, shortened(axis.name, 22), Align::kMiddle, "small");
  for (const auto& [place, text] : apart(axis.marks)) {
    const double y = y_of(place), width = Drawing::small_width(text);
    drawing.line({x + 4 * side, y}, {x, y}, "axis");
    if (number > 0 && !is_last)  // the label covers lines of the trials
      drawing.rectangle({x - 8 - width, y - 6}, width + 2, 12, "paper", 0.85);
    drawing.text({x + 7 * side, y + 4}, text, is_last ? Align::kStart : Align::kEnd, "small");
  }
}

}  // namespace

std::vector<Drawing> draw_parallel_coordinates(const SweepResults& results) {
  if (!results.objective) return {};
  const std::string& metric = results.objective->metric;
  std::vector<const TrialResult*> trials;
  for (const TrialResult& one : results.trials) {
    const auto value = one.metrics.find(metric);
    if (value != one.metrics.end() && std::isfinite(value->second)) trials.push_back(&one);
  }
  if (trials.size() < 2 || results.keys.empty()) return {};
  std::vector<double> values;
  for (const TrialResult* trial : trials) values.push_back(trial->metrics.at(metric));
  std::vector<Coordinate> axes;
  for (const std::string& key : results.keys) axes.push_back(of_key(key, trials));
  axes.push_back(of_numbers(metric, values));

  std::vector<std::size_t> order(trials.size());  // the best trials are drawn last, and thus on top
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return results.objective->is_smaller_better ? values[a] > values[b] : values[a] < values[b];
  });
  Drawing drawing(
      x_of(axes.size() - 1) + 90, kAxisTop + kAxisLength + kBottom, "Parallel coordinates",
      std::to_string(trials.size()) + " trials over " + std::to_string(axes.size() - 1) +
          " keys; the best quarter is in color, by " + metric);
  drawing.text({10, 20}, "Trials by setting", Align::kStart, "title");
  const std::size_t best = trials.size() - std::max<std::size_t>(1, trials.size() / 4);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    std::vector<Point> line;
    for (std::size_t i = 0; i < axes.size(); ++i)
      line.push_back({x_of(i), y_of(axes[i].places[order[rank]])});
    drawing.line(line, rank >= best ? "line color-2" : "thin color-7");
  }
  for (std::size_t i = 0; i < axes.size(); ++i)
    draw_axis(drawing, axes[i], i, i + 1 == axes.size());
  const std::vector<LegendEntry> legend = {{"best quarter by " + shortened(metric, 40), 2}};
  draw_legend(drawing, {kLeft, kAxisTop + kAxisLength + 24}, legend);
  return {drawing};
}

}  // namespace runner
