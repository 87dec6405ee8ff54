#include "runner/parent/sweep/asha.h"

#include <algorithm>
#include <cmath>

namespace runner {

std::optional<std::size_t> Asha::rung_at(std::int64_t values) const {
  if (options_.last && values > *options_.last) return std::nullopt;
  std::int64_t at = options_.first;
  for (std::size_t rung = 0;; ++rung) {
    if (at == values) return rung;
    if (at > values / options_.factor) return std::nullopt;
    at *= options_.factor;
  }
}

bool Asha::stops(const RungValue& reached) {
  std::vector<double>& values = values_[reached.rung];
  const auto is_better = [&](double other) {
    if (std::isnan(other) || std::isnan(reached.value)) return !std::isnan(other);
    return is_smaller_better_ ? other < reached.value : other > reached.value;
  };
  const std::int64_t better = std::ranges::count_if(values, is_better);
  values.push_back(reached.value);
  return better >= std::max<std::int64_t>(1, std::ssize(values) / options_.factor);
}

}  // namespace runner
