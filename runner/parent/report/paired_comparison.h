#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/comparison.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// How much better one few-shot model is than another on the same episodes. A hard episode is hard
/// for both models, so the differences vary less than the accuracies.
struct PairedDifference {
  std::string run, base;     ///< the labels of the rows of the comparison
  double mean = 0;           ///< mean of run - base over the episodes
  double low = 0, high = 0;  ///< 95% confidence interval of the mean, +- 1.96 standard errors
  /// Two-sided probability of a mean at least this far from 0 if both models were equally good,
  /// according to the normal distribution.
  double p_value = 1;
  std::int64_t better = 0, worse = 0, equal = 0;  ///< number of episodes per outcome
  std::vector<double> of_episodes = {};           ///< run - base for each episode
};

/// The minimum number of episodes for which the mean is assumed to be normally distributed.
inline constexpr std::size_t kLeastEpisodes = 30;

/// Compares every evaluation with the first. kNoResults if one was not measured over episodes, or
/// over fewer than kLeastEpisodes of them; kOptionConflict if the episodes differ.
Result<std::vector<PairedDifference>> paired_differences(const Comparison& comparison);

/// Returns the differences as a table.
std::string paired_text(const std::vector<PairedDifference>& differences,
                        const TextStyle& style = {});

/// Returns a list of {"run", "base", "difference", "interval", "p_value", "better", "worse",
/// "equal"}.
nlohmann::ordered_json to_json(const std::vector<PairedDifference>& differences);

}  // namespace runner
