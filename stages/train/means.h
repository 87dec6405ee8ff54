#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stages {

/// Means over some samples of what a training step measures.
struct Means {
  using Named = std::vector<std::pair<std::string, double>>;

  double weight = 0;  ///< of the samples so far, in the loss
  double units = 0;   ///< what the scores so far count among: samples, or the queries of episodes
  double loss = 0;
  Named terms;  ///< their sum is the loss
  Named scores;

  /// Takes in more samples, measured by the same step.
  void add(const Means& more);

  /// "loss", or a term or score of that name; throws std::out_of_range when there is none.
  double at(std::string_view name) const;
};

}  // namespace stages
