#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stages {

/// A prediction, the probability that the network gave it, and whether it was right.
struct Confidence {
  double probability = 0;
  bool is_correct = false;
};

/// Whether predictions are right as often as their probability says (Guo and others, 2017, arXiv:1706.04599).
struct Calibration {
  /// The predictions whose probability lies in (low, high].
  struct Bin {
    double low = 0, high = 0;
    std::int64_t count = 0;
    double confidence = 0;  ///< mean probability; 0 where there are none
    double accuracy = 0;    ///< share of them that is right; 0 where there are none
  };
  std::vector<Bin> bins;  ///< of equal width, from 0 to 1
  double error = 0;       ///< expected: mean over predictions of |accuracy - confidence| of their bin
};

/// Of at least one prediction.
Calibration calibration(std::span<const Confidence> predictions, std::int64_t bins);

}  // namespace stages
