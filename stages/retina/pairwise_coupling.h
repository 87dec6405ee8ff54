#pragma once

#include <cstdint>
#include <vector>

namespace stages {

/// How often `first` wins against `second`, as one of them is known to be right.
struct PairOpinion {
  std::int64_t first = 0, second = 0;
  double share = 0.5;  ///< of the first, in [0, 1]
};

/// The probabilities of the classes, of sum 1, that fit these opinions best by the Kullback-Leibler distance, where
/// each pair of classes has as many opinions (Hastie and Tibshirani, "Classification by Pairwise Coupling", 1998,
/// algorithm 1): the p for which every class i has sum_j r_ij = sum_j p_i / (p_i + p_j).
std::vector<double> couple(const std::vector<PairOpinion>& opinions, std::int64_t classes);

}  // namespace stages
