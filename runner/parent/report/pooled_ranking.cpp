#include "runner/parent/report/pooled_ranking.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace runner {

PooledRanking::PooledRanking(std::vector<Scored> samples)
    : samples_(std::move(samples)), order_(samples_.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return samples_[i].score; });
}

std::optional<double> PooledRanking::area(const std::vector<std::uint32_t>& times) const {
  double positives = 0, negatives = 0, twice_above = 0;
  for (std::size_t i = 0; i < order_.size();) {
    const double score = samples_[order_[i]].score;
    double new_positives = 0, new_negatives = 0;
    for (; i < order_.size() && samples_[order_[i]].score == score; ++i)
      (samples_[order_[i]].is_positive ? new_positives : new_negatives) += times[order_[i]];
    twice_above += new_positives * (2 * negatives + new_negatives);
    positives += new_positives;
    negatives += new_negatives;
  }
  if (positives == 0 || negatives == 0) return std::nullopt;
  return twice_above / (2 * positives * negatives);
}

std::optional<double> PooledRanking::average_precision(
    const std::vector<std::uint32_t>& times) const {
  double accepted = 0, found = 0, sum = 0;
  for (std::size_t i = order_.size(); i > 0;) {
    const double score = samples_[order_[i - 1]].score;
    double new_positives = 0;
    for (; i > 0 && samples_[order_[i - 1]].score == score; --i) {
      accepted += times[order_[i - 1]];
      if (samples_[order_[i - 1]].is_positive) new_positives += times[order_[i - 1]];
    }
    found += new_positives;
    if (new_positives > 0) sum += new_positives * found / accepted;
  }
  if (found == 0) return std::nullopt;
  return sum / found;
}

}  // namespace runner
