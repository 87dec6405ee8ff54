#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/artifact/model.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// By what the opinions of networks of two classes each become the score of every class.
enum class VoteRule {
  kMajority,            ///< one vote a network
  kSoft,                ///< the probabilities that the networks give it
  kAccuracyWeighted,    ///< the same, each times the network's accuracy on the validation data
  kConfidenceWeighted,  ///< the same, each times how far it is from undecided, 2 |p - 0.5|
  kPairwiseCoupling,    ///< the probabilities that fit them best: pairwise_coupling.h
  kSeedWeighted,        ///< as published in October 2025, with its mistakes; of five classes
};

/// As recipes write them.
inline constexpr std::array<std::pair<std::string_view, VoteRule>, 6> kVoteRules = {
    {{"majority", VoteRule::kMajority},
     {"soft", VoteRule::kSoft},
     {"accuracy_weighted", VoteRule::kAccuracyWeighted},
     {"confidence_weighted", VoteRule::kConfidenceWeighted},
     {"pairwise_coupling", VoteRule::kPairwiseCoupling},
     {"seed_weighted", VoteRule::kSeedWeighted}}};

std::string_view name(VoteRule rule);
/// Needs the accuracy of every network.
bool needs_accuracies(VoteRule rule);

/// Which of the classes with the best score wins.
enum class TieBreak {
  kProbabilitySum,  ///< that with the most of kSoft; then kMostSevere
  kLowest,          ///< the first: the mildest grade
  kHighest,         ///< the last
  kMostSevere,      ///< the last, since grades stand in their order
};

inline constexpr std::array<std::pair<std::string_view, TieBreak>, 4> kTieBreaks = {
    {{"probability_sum", TieBreak::kProbabilitySum},
     {"lowest", TieBreak::kLowest},
     {"highest", TieBreak::kHighest},
     {"most_severe", TieBreak::kMostSevere}}};

struct VoteOptions {
  TieBreak tie_break = TieBreak::kMostSevere;
  double threshold = 0.5;  ///< a network votes for its second class above this probability
  double temperature = 1;  ///< by which logits are divided
};

/// A network that tells two classes apart.
struct VotingPair {
  std::int64_t first = 0, second = 0;
  double accuracy = 1;  ///< on the validation data
};

/// The probability of a pair's second class.
double pair_probability(double logit, const VoteOptions& options);

/// What the networks decide about one sample by one rule.
struct Vote {
  std::vector<double> scores;  ///< by class
  std::int64_t winner = 0;
  bool is_tied = false;  ///< another has the same score, but for rounding
  double margin = 0;  ///< between the two best scores, as a share of all scores; 0 where it is tied
};

/// `probabilities` are those of the second classes of `pairs`, in their order; the pairs of one set
/// of networks come in the order of their classes, one set after the other. kSeedWeighted takes
/// five classes.
Vote vote(VoteRule rule, std::span<const VotingPair> pairs, std::span<const double> probabilities,
          std::int64_t classes, const VoteOptions& options);

/// How often `first` wins against `second`, as one of them is known to be right.
struct PairOpinion {
  std::int64_t first = 0, second = 0;
  double share = 0.5;  ///< of the first, in [0, 1]
};

/// The probabilities of the classes, of sum 1, that fit these opinions best by the Kullback-Leibler
/// distance, where each pair of classes has as many opinions (Hastie and Tibshirani,
/// "Classification by Pairwise Coupling", 1998, algorithm 1): the p for which every class i has
/// sum_j r_ij = sum_j p_i / (p_i + p_j).
std::vector<double> couple(const std::vector<PairOpinion>& opinions, std::int64_t classes);

/// How an ensemble comes to a decision.
struct Voting {
  VoteRule decides = VoteRule::kMajority;
  VoteOptions options;
  std::optional<double> abstain_below;  ///< a margin, below which it does not decide
};

/// Reads decide_by, tie_break, threshold, temperature and abstain_below of
/// evaluate.pairwise_ensemble.
Voting read_voting(runner::ConfigReader& reader);

/// A network of an ensemble.
struct EnsembleMember {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::int64_t first = 0,
               second = 0;  ///< numbers of its classes among all; the first is the lower one
  bool is_turned = false;   ///< its logit is that of the first: it was trained the other way round
  std::size_t set = 0;      ///< which networks of one model it belongs to
};

/// Networks of two classes each that vote for one of all classes: of every model one for each pair.
struct Ensemble {
  std::vector<std::string> classes;
  std::vector<EnsembleMember> members;  ///< set by set, in the order of their classes
  std::size_t sets = 0;
  /// Of each set, what its model is called, "densenet121"; with the number of the set after it
  /// where two are called the same, and the number alone where the model has no name.
  std::vector<std::string> models = {};

  /// "mild-severe", with the number of the set after it where there are several: "mild-severe.1".
  std::string name_of(const EnsembleMember& member) const;
  /// As they vote; an accuracy that is not known is 0.
  std::vector<VotingPair> pairs() const;
  /// The first member without an accuracy on validation data; null: all have one.
  const EnsembleMember* without_accuracy() const;
};

/// Puts networks in their places. Two belong to one set if their models are the same. Throws
/// runner::StageError, kLabelOutOfRange, naming every pair of `classes` that has no network in a
/// set, and every one that has two; and networks that are of no pair, or of classes that are not
/// among `classes`.
Ensemble make_ensemble(const std::vector<std::shared_ptr<const Checkpoint>>& networks,
                       const std::vector<std::string>& classes);

}  // namespace stages
