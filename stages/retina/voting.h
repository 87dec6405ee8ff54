#pragma once

#include <optional>

#include "stages/retina/vote.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// How an ensemble comes to a decision.
struct Voting {
  VoteRule decides = VoteRule::kMajority;
  VoteOptions options;
  std::optional<double> abstain_below;  ///< a margin, below which it does not decide
};

/// Reads decide_by, tie_break, threshold, temperature and abstain_below of evaluate.pairwise_ensemble.
Voting read_voting(runner::ConfigReader& reader);

}  // namespace stages
