#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/retina/vote.h"

namespace stages {

/// What every network of an ensemble said about every sample, from which all rules decide.
struct PairTable {
  std::vector<std::string> names;    ///< of the samples
  std::vector<std::int64_t> labels;  ///< of each sample, among the ensemble's classes
  std::vector<double>
      logits;  ///< (samples, members), row by row: each that of the member's second class

  std::size_t samples() const { return names.size(); }
  /// The probabilities of the members' second classes for one sample.
  std::vector<double> probabilities(std::size_t row, const VoteOptions& options) const;
};

/// Those of an ensemble's networks that are of one model, and what they said.
struct SetAlone {
  Ensemble ensemble;  ///< of that one set
  PairTable table;
};
SetAlone set_alone(const PairTable& table, const Ensemble& ensemble, std::size_t set);

/// How well one network tells its two classes apart, on the samples of these two.
struct PairQuality {
  std::int64_t samples = 0;
  std::optional<double> accuracy,
      area;  ///< at the threshold; under the ROC curve; where they are defined
};
PairQuality pair_quality(const PairTable& table, const Ensemble& ensemble, std::size_t member,
                         const VoteOptions& options);

/// [{"pair", "first", "second", "set", "samples", "accuracy", "auc", "validation_accuracy",
/// "epoch"}], one a network.
nlohmann::ordered_json pairs_json(const PairTable& table, const Ensemble& ensemble,
                                  const VoteOptions& options);

/// name,grade and a logit each network; a line each sample, with every bit of the logits.
std::string pair_logits_csv(const PairTable& table, const Ensemble& ensemble);

/// What an ensemble decides about every sample by one rule.
struct Decisions {
  std::vector<Vote> votes;
  std::vector<bool> abstains;  ///< its margin is too small
  std::int64_t tied = 0, abstained = 0;
};
Decisions decide(VoteRule rule, const PairTable& table, const Ensemble& ensemble,
                 const VoteOptions& options, std::optional<double> abstain_below);

/// name,grade,prediction,tied,margin, the score of every class by the rule and the probability of
/// every network's second class; a line each sample. The prediction of a sample that the rule
/// abstains from is empty.
std::string votes_csv(const PairTable& table, const Ensemble& ensemble, const Decisions& decisions,
                      const VoteOptions& options);

}  // namespace stages
