#include "stages/train/strength_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace stages {
namespace {

constexpr std::int64_t kFirstDecades = 2;  // factor between the first values

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
    const StrengthRange& range,
    const std::function<std::vector<double>(const std::vector<double>& strengths)>& accuracies) {
  std::vector<MeasuredStrength> measured;
  std::map<std::int64_t, MeasuredStrength> by_index;
  const auto measure = [&](std::vector<std::int64_t> indices) {
    std::erase_if(indices, [&](std::int64_t index) {
      return index < 0 || index >= range.size() || by_index.contains(index);
    });
    if (indices.empty()) return;
    std::vector<double> strengths;
    for (const std::int64_t index : indices) strengths.push_back(range.at(index));
    const std::vector<double> accuracy = accuracies(strengths);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      measured.push_back({strengths[i], accuracy[i]});
      by_index[indices[i]] = measured.back();
    }
  };
  const auto best = [&] {
    return std::ranges::max_element(by_index,
                                    [](const auto& one, const auto& other) {
                                      return is_better(other.second, one.second);
                                    })
        ->first;
  };
  std::int64_t distance = kFirstDecades * range.per_decade;
  std::vector<std::int64_t> first;
  for (std::int64_t index = 0; index + 1 < range.size(); index += distance) first.push_back(index);
  first.push_back(range.size() - 1);
  measure(std::move(first));
  while (distance > 1) {
    distance /= 2;
    const std::int64_t center = best();
    measure({center - distance, center + distance});
  }
  return measured;
}

MeasuredStrength best_of(const std::vector<MeasuredStrength>& measured) {
  return *std::ranges::max_element(
      measured, [](const auto& one, const auto& other) { return is_better(other, one); });
}

}  // namespace stages
