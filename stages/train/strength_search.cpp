#include "stages/train/strength_search.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace stages {
namespace {

constexpr std::int64_t kFirstDecades = 2;  // between the first values

bool is_better(const MeasuredStrength& one, const MeasuredStrength& other) {
  if (one.accuracy != other.accuracy) return one.accuracy > other.accuracy;
  return one.strength > other.strength;
}

}  // namespace

std::int64_t StrengthRange::size() const {
  const double decades = std::log10(most) - std::log10(least);
  return std::llround(decades * static_cast<double>(per_decade)) + 1;
}

double StrengthRange::at(std::int64_t index) const {
  if (index + 1 == size()) return most;
  return least * std::pow(10.0, static_cast<double>(index) / static_cast<double>(per_decade));
}

std::vector<MeasuredStrength> search_strength(
    const StrengthRange& range, const std::function<double(double strength)>& accuracy) {
  std::vector<MeasuredStrength> measured;
  std::map<std::int64_t, MeasuredStrength> by_index;
  const auto measure = [&](std::int64_t index) {
    if (index < 0 || index >= range.size() || by_index.contains(index)) return;
    const double strength = range.at(index);
    measured.push_back({strength, accuracy(strength)});
    by_index[index] = measured.back();
  };
  const auto best = [&] {
    return std::ranges::max_element(by_index,
                                    [](const auto& one, const auto& other) {
                                      return is_better(other.second, one.second);
                                    })
        ->first;
  };
  std::int64_t distance = kFirstDecades * range.per_decade;
  for (std::int64_t index = 0; index < range.size(); index += distance) measure(index);
  measure(range.size() - 1);
  while (distance > 1) {
    distance /= 2;
    const std::int64_t center = best();
    measure(center - distance);
    measure(center + distance);
  }
  return measured;
}

MeasuredStrength best_of(const std::vector<MeasuredStrength>& measured) {
  return *std::ranges::max_element(
      measured, [](const auto& one, const auto& other) { return is_better(other, one); });
}

}  // namespace stages
