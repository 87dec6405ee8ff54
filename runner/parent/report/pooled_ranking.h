#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace runner {

/// Samples ordered by their scores for one class, so that each measure of a bootstrap draw takes a
/// single pass.
class PooledRanking {
 public:
  struct Scored {
    double score = 0;
    bool is_positive = false;
  };
  /// `samples` are numbered in this order. Their scores must not be NaN.
  explicit PooledRanking(std::vector<Scored> samples);

  /// Returns the area when sample i occurs `times[i]` times; samples with equal scores count half.
  /// nullopt if there are no positives or no negatives.
  std::optional<double> area(const std::vector<std::uint32_t>& times) const;
  /// Returns the average precision, as stages/artifact/label_ranking.h defines it. nullopt if there
  /// are no positives.
  std::optional<double> average_precision(const std::vector<std::uint32_t>& times) const;

 private:
  std::vector<Scored> samples_;
  std::vector<std::size_t> order_;  // by ascending score
};

}  // namespace runner
