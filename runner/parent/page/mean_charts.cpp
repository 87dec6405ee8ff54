#include "runner/parent/page/mean_charts.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "runner/parent/registry/run_entry.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/finite_number.h"
#include "runner/shared/text/join.h"

namespace runner {
namespace {

/// A value of a key, and the mean of its trials.
struct ValueMean {
  std::string value;
  const TrialMean* mean;
  double half() const { return mean->half_interval.value_or(0); }
};

struct KeyMeans {
  std::string key;
  std::vector<ValueMean> values = {};
};

/// Returns the means by key. Values that are numbers are sorted.
std::vector<KeyMeans> means_by_key(std::span<const TrialMean> means) {
  std::vector<KeyMeans> keys;
  for (const TrialMean& one : means) {
    const std::size_t equals = one.what.find('=');
    if (equals == one.what.npos || one.what.find(' ') != one.what.npos || !std::isfinite(one.mean))
      continue;
    const std::string key = one.what.substr(0, equals);
    if (keys.empty() || keys.back().key != key) keys.push_back({key});
    keys.back().values.push_back({one.what.substr(equals + 1), &one});
  }
  for (KeyMeans& key : keys) {
    const auto number = [](const ValueMean& one) { return finite_number(one.value); };
    if (std::ranges::all_of(key.values, [&](const auto& one) { return number(one).has_value(); }))
      std::ranges::stable_sort(key.values, {}, number);
  }
  return keys;
}

Drawing draw_key(const KeyMeans& key, const Objective& objective) {
  constexpr double kWidth = 480, kHeight = 300;
  const auto count = static_cast<double>(key.values.size());
  double low = key.values[0].mean->mean, high = low;
  std::string description;
  Ticks places{.low = 0.5, .high = count + 0.5};
  const auto letters = static_cast<std::size_t>(std::max(4.0, 385 / count / 6.3));
  for (const ValueMean& one : key.values) {
    low = std::min(low, one.mean->mean - one.half());
    high = std::max(high, one.mean->mean + one.half());
    places.values.push_back(static_cast<double>(places.values.size() + 1));
    places.labels.push_back(shortened(one.value, letters));
    description += (description.empty() ? "" : "; ") + one.value + ": " +
                   shown_number(one.mean->mean) + " of " + counted(one.mean->trials, "trial");
  }
  Drawing drawing(kWidth, kHeight, "Means of " + objective.metric + " by " + key.key, description);
  Plot plot(drawing, {70, 44, 385, 196}, {key.key, places},
            {objective.metric, nice_ticks(low, high, 7)}, "effect of " + key.key);
  for (std::size_t i = 0; i < key.values.size(); ++i) {
    const double x = places.values[i], mean = key.values[i].mean->mean;
    if (key.values[i].half() > 0)
      plot.interval(x, mean - key.values[i].half(), mean + key.values[i].half());
    plot.line(std::vector<Point>{{x, mean}}, 1);
  }
  drawing.text({70, kHeight - 8}, "dots: means of trials; lines: 95% intervals", Align::kStart,
               "small");
  return drawing;
}

}  // namespace

std::vector<Drawing> draw_means(std::span<const TrialMean> means, const Objective& objective) {
  constexpr std::size_t kMostValues = 20;
  std::vector<Drawing> drawings;
  for (const KeyMeans& key : means_by_key(means)) {
    if (key.values.size() > 1 && key.values.size() <= kMostValues)
      drawings.push_back(draw_key(key, objective));
  }
  return drawings;
}

}  // namespace runner
