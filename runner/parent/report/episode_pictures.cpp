#include "runner/parent/report/episode_pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "runner/parent/svg/plot.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr int kMostBars = 40;

/// A histogram of values that are multiples of some fraction, such as one query of an episode. The
/// width of a bar is a whole multiple of that fraction; otherwise, some bars would cover more of
/// these values than their neighbors, and the histogram would look jagged.
struct Bars {
  double width = 1;
  /// The number of values in each bar, by the bar's index; a bar is centered at index x width.
  std::map<std::int64_t, std::int64_t> counts;

  explicit Bars(const std::vector<double>& values) {
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    double smallest = 1;  // an episode's accuracy is at most 1
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (const double gap = sorted[i] - sorted[i - 1]; gap > 1e-6)
        smallest = std::min(smallest, gap);
    }
    width = smallest *
            std::max(1.0, std::ceil((sorted.back() - sorted.front()) / smallest / kMostBars));
    for (const double value : values) ++counts[std::llround(value / width)];
  }
  double low() const { return (static_cast<double>(counts.begin()->first) - 0.5) * width; }
  double high() const { return (static_cast<double>(counts.rbegin()->first) + 0.5) * width; }
  std::int64_t most() const {
    return std::ranges::max_element(counts, {}, [](const auto& bar) { return bar.second; })->second;
  }
};

std::string bar_tip(std::int64_t episodes, double middle) {
  return std::to_string(episodes) + (episodes == 1 ? " episode" : " episodes") + " at " +
         percent(middle) + "%";
}

/// The contents of one drawing: a value for each episode, the mean and its 95% confidence
/// interval.
struct Distribution {
  const std::vector<double>& values;
  double mean, low, high;
};

void draw_distribution(Drawing& drawing, const Distribution& shown, const std::string& label,
                       const std::string& title, int color) {
  const Bars bars(shown.values);
  const Ticks shares =
      nice_ticks(100 * std::min(bars.low(), shown.low), 100 * std::max(bars.high(), shown.high), 9);
  const Ticks counts = whole_ticks(0, static_cast<double>(bars.most()), 7);
  Plot plot(drawing, {70, 56, 520, 300}, {label, shares}, {"episodes", counts}, title);
  for (const auto& [place, count] : bars.counts) {
    const double middle = static_cast<double>(place) * bars.width;
    plot.bar(100 * (middle - 0.46 * bars.width), 100 * (middle + 0.46 * bars.width),
             static_cast<double>(count), color, bar_tip(count, middle));
  }
  for (const double end : {shown.low, shown.high})
    plot.dashed({100 * end, 0}, {100 * end, counts.high});
  const std::array<Point, 2> mean = {{{100 * shown.mean, 0}, {100 * shown.mean, counts.high}}};
  plot.line(mean, 1, Stroke::kInk);
  const std::array<LegendEntry, 2> legend = {
      {{"mean", 1, false, Stroke::kInk}, {"95% interval of the mean", 1, true}}};
  draw_legend(drawing, {70, 412}, std::span(legend).first(1));
  draw_legend(drawing, {150, 412}, std::span(legend).last(1));
}

std::string of_mean(const Distribution& shown) {
  return "mean " + percent(shown.mean) + "%, 95% interval " + percent(shown.low) + "% to " +
         percent(shown.high) + "%";
}

}  // namespace

Drawing draw_episodes(const RecordedEvaluation& evaluation, const std::string& name) {
  const Distribution shown{evaluation.episodes, evaluation.accuracy, evaluation.low,
                           evaluation.high};
  const std::string title =
      std::to_string(evaluation.episodes.size()) + " episodes, " + of_mean(shown);
  Drawing drawing(630, 430, "Accuracy of " + name + " by episode", title);
  draw_distribution(drawing, shown, "accuracy per episode, %", title, 1);
  drawing.footer(shortened(name, 90));
  return drawing;
}

Drawing draw_difference(const PairedDifference& difference) {
  const Distribution shown{difference.of_episodes, difference.mean, difference.low,
                           difference.high};
  const std::string what = difference.run + " against " + difference.base;
  Drawing drawing(630, 430, "Accuracy difference, " + what,
                  std::to_string(difference.of_episodes.size()) + " episodes, " + of_mean(shown) +
                      "; better in " + std::to_string(difference.better) + ", worse in " +
                      std::to_string(difference.worse) + ", equal in " +
                      std::to_string(difference.equal));
  draw_distribution(drawing, shown, "accuracy difference per episode, %",
                    std::to_string(difference.of_episodes.size()) + " episodes, " + of_mean(shown),
                    2);
  drawing.footer(shortened(what, 90));
  return drawing;
}

}  // namespace runner
