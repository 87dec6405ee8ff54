#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/retina/vote.h"

namespace stages {

/// The outputs of every network of an ensemble for every sample. All voting rules use this table as
/// input.
struct PairTable {
  std::vector<std::string> names;    ///< of the samples
  std::vector<std::int64_t> labels;  ///< label of each sample, among the ensemble's classes
  std::vector<double>
      logits;  ///< (samples, members), row by row: each is the logit of the member's second class
  std::vector<std::string> groups = {};  ///< as in ClassifiedSamples

  std::size_t samples() const { return names.size(); }
  /// Returns the probabilities of the members' second classes for one sample.
  std::vector<double> probabilities(std::size_t row, const VoteOptions& options) const;
};

/// The networks of an ensemble that share a model, and their outputs.
struct SetAlone {
  Ensemble ensemble;  ///< contains only this set
  PairTable table;
};
SetAlone set_alone(const PairTable& table, const Ensemble& ensemble, std::size_t set);

/// How well a network separates its two classes, measured on the samples of these classes.
struct PairQuality {
  std::int64_t samples = 0;
  std::optional<double> accuracy,
      area;  ///< accuracy at the threshold and area under the ROC curve; nullopt if undefined
};
PairQuality pair_quality(const PairTable& table, const Ensemble& ensemble, std::size_t member,
                         const VoteOptions& options);

/// Returns [{"pair", "first", "second", "set", "samples", "accuracy", "auc", "validation_accuracy",
/// "epoch"}], with one item per network.
nlohmann::ordered_json pairs_json(const PairTable& table, const Ensemble& ensemble,
                                  const VoteOptions& options);

/// Returns a table with a line per sample: name,grade and a logit per network, without rounding.
std::string pair_logits_csv(const PairTable& table, const Ensemble& ensemble);

/// The decisions that an ensemble makes on every sample under one rule.
struct Decisions {
  std::vector<Vote> votes;
  std::vector<bool> abstains;  ///< true if the margin of the vote is too small
  std::int64_t tied = 0, abstained = 0;
};
Decisions decide(VoteRule rule, const PairTable& table, const Ensemble& ensemble,
                 const VoteOptions& options, std::optional<double> abstain_below);

/// Returns a table with a line per sample: name,grade,prediction,tied,margin, the score of every
/// class under the rule, and the probability of every network's second class. The prediction is
/// empty if the ensemble abstains.
std::string votes_csv(const PairTable& table, const Ensemble& ensemble, const Decisions& decisions,
                      const VoteOptions& options);

}  // namespace stages
