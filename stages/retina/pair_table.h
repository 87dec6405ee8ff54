#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/retina/vote.h"

namespace stages {

/// The outputs of every network of an ensemble for every sample: the input of all rules.
struct PairTable {
  std::vector<std::string> names;    ///< of the samples
  std::vector<std::int64_t> labels;  ///< of each sample, among the ensemble's classes
  std::vector<double>
      logits;  ///< (samples, members), row by row: each is the logit of the member's second class

  std::size_t samples() const { return names.size(); }
  /// The probabilities of the members' second classes for one sample.
  std::vector<double> probabilities(std::size_t row, const VoteOptions& options) const;
};

/// The networks of an ensemble that share one model, and their outputs.
struct SetAlone {
  Ensemble ensemble;  ///< of that one set
  PairTable table;
};
SetAlone set_alone(const PairTable& table, const Ensemble& ensemble, std::size_t set);

/// How well one network separates its two classes, on the samples of these two.
struct PairQuality {
  std::int64_t samples = 0;
  std::optional<double> accuracy,
      area;  ///< accuracy at the threshold, and area under the ROC curve; if defined
};
PairQuality pair_quality(const PairTable& table, const Ensemble& ensemble, std::size_t member,
                         const VoteOptions& options);

/// [{"pair", "first", "second", "set", "samples", "accuracy", "auc", "validation_accuracy",
/// "epoch"}], one per network.
nlohmann::ordered_json pairs_json(const PairTable& table, const Ensemble& ensemble,
                                  const VoteOptions& options);

/// name,grade and a logit per network; a line per sample, with every bit of the logits.
std::string pair_logits_csv(const PairTable& table, const Ensemble& ensemble);

/// The decisions of an ensemble about every sample by one rule.
struct Decisions {
  std::vector<Vote> votes;
  std::vector<bool> abstains;  ///< its margin is too small
  std::int64_t tied = 0, abstained = 0;
};
Decisions decide(VoteRule rule, const PairTable& table, const Ensemble& ensemble,
                 const VoteOptions& options, std::optional<double> abstain_below);

/// name,grade,prediction,tied,margin, the score of every class by the rule and the probability of
/// every network's second class; a line per sample. The prediction is empty if the rule abstains.
std::string votes_csv(const PairTable& table, const Ensemble& ensemble, const Decisions& decisions,
                      const VoteOptions& options);

}  // namespace stages
