#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/comparison.h"

namespace runner {

/// How much better one few-shot model is than another over the same episodes. A hard episode is
/// hard for both, so the differences vary less than the accuracies.
struct PairedDifference {
  std::string run, base;     ///< the labels of the rows of the comparison
  double mean = 0;           ///< of run - base, over episodes
  double low = 0, high = 0;  ///< its 95 % interval, mean +- 1.96 standard errors
  double p_value = 1;        ///< probability of a mean that far from 0 if both were equally good;
                             ///< two-sided, normal
  std::int64_t better = 0, worse = 0, equal = 0;  ///< episodes
  std::vector<double> of_episodes = {};           ///< run - base in each
};

/// From this many episodes on, the mean is taken to be normally distributed.
inline constexpr std::size_t kLeastEpisodes = 30;

/// Compares every evaluation with the first. kNoResults if one was not measured over episodes or
/// over fewer than kLeastEpisodes, kOptionConflict if two were measured over different episodes.
Result<std::vector<PairedDifference>> paired_differences(const Comparison& comparison);

/// A table.
std::string paired_text(const std::vector<PairedDifference>& differences);

/// A list of {"run", "base", "difference", "interval", "p_value", "better", "worse", "equal"}.
nlohmann::ordered_json to_json(const std::vector<PairedDifference>& differences);

}  // namespace runner
