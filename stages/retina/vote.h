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

/// How the outputs of two-class networks are combined into a score for every class.
enum class VoteRule {
  kMajority,            ///< one vote per network
  kSoft,                ///< sum of the probabilities from the networks
  kAccuracyWeighted,    ///< the same, weighted by each network's accuracy on the validation data
  kConfidenceWeighted,  ///< the same, each weighted by its distance from undecided, 2 |p - 0.5|
  kPairwiseCoupling,    ///< the probabilities that fit the networks' best: couple()
  kSeedWeighted,        ///< as published in October 2025, including its mistakes; for five classes
};

/// The names in recipes.
inline constexpr std::array<std::pair<std::string_view, VoteRule>, 6> kVoteRules = {
    {{"majority", VoteRule::kMajority},
     {"soft", VoteRule::kSoft},
     {"accuracy_weighted", VoteRule::kAccuracyWeighted},
     {"confidence_weighted", VoteRule::kConfidenceWeighted},
     {"pairwise_coupling", VoteRule::kPairwiseCoupling},
     {"seed_weighted", VoteRule::kSeedWeighted}}};

std::string_view name(VoteRule rule);
/// Whether the rule needs the accuracy of every network.
bool needs_accuracies(VoteRule rule);

/// Which of several classes with the best score wins.
enum class TieBreak {
  kProbabilitySum,  ///< the one with the highest kSoft score; then kMostSevere
  kLowest,          ///< the first: the mildest grade
  kHighest,         ///< the last
  kMostSevere,      ///< the last, since grades are in order
};

inline constexpr std::array<std::pair<std::string_view, TieBreak>, 4> kTieBreaks = {
    {{"probability_sum", TieBreak::kProbabilitySum},
     {"lowest", TieBreak::kLowest},
     {"highest", TieBreak::kHighest},
     {"most_severe", TieBreak::kMostSevere}}};

struct VoteOptions {
  TieBreak tie_break = TieBreak::kMostSevere;
  double threshold = 0.5;  ///< a network votes for its second class above this probability
  double temperature = 1;  ///< logits are divided by it
};

/// A network that separates two classes.
struct VotingPair {
  std::int64_t first = 0, second = 0;
  double accuracy = 1;  ///< on the validation data
};

/// The probability of a pair's second class.
double pair_probability(double logit, const VoteOptions& options);

/// The decision of the networks about one sample by one rule.
struct Vote {
  std::vector<double> scores;  ///< by class
  std::int64_t winner = 0;
  bool is_tied = false;  ///< another class has the same score, up to rounding
  double margin = 0;     ///< between the two best scores, as a share of all scores; 0 if tied
};

/// `probabilities` are those of the second classes of `pairs`, in the same order; the pairs of one
/// set of networks come in the order of their classes, one set after the other. kSeedWeighted
/// requires five classes.
Vote vote(VoteRule rule, std::span<const VotingPair> pairs, std::span<const double> probabilities,
          std::int64_t classes, const VoteOptions& options);

/// The probability of `first` against `second`, given that one of them is right.
struct PairOpinion {
  std::int64_t first = 0, second = 0;
  double share = 0.5;  ///< of the first, in [0, 1]
};

/// The class probabilities, with sum 1, that fit these opinions best in Kullback-Leibler distance,
/// if each pair of classes has the same number of opinions (Hastie and Tibshirani, "Classification
/// by Pairwise Coupling", 1998, algorithm 1): the p for which every class i has sum_j r_ij = sum_j
/// p_i / (p_i + p_j).
std::vector<double> couple(const std::vector<PairOpinion>& opinions, std::int64_t classes);

/// How an ensemble decides.
struct Voting {
  VoteRule decides = VoteRule::kMajority;
  VoteOptions options;
  std::optional<double> abstain_below;  ///< it abstains below this margin
};

/// Reads decide_by, tie_break, threshold, temperature and abstain_below of
/// evaluate.pairwise_ensemble.
Voting read_voting(runner::ConfigReader& reader);

/// A network of an ensemble.
struct EnsembleMember {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::int64_t first = 0,
               second = 0;  ///< class numbers; the first is the lower one
  bool is_turned = false;   ///< its logit is that of the first class: it was trained the other way
                            ///< round
  std::size_t set = 0;      ///< index of its set: the networks of one model
};

/// Two-class networks that vote for one of all classes: of every model one network per pair.
struct Ensemble {
  std::vector<std::string> classes;
  std::vector<EnsembleMember> members;  ///< set by set, in the order of their classes
  std::size_t sets = 0;
  /// The name of each set's model, "densenet121"; followed by the set's number if two have the same
  /// name; only the number if the model has no name.
  std::vector<std::string> models = {};

  /// "mild-severe"; if there are several sets, with the set's number appended: "mild-severe.1".
  std::string name_of(const EnsembleMember& member) const;
  /// The members as voters; an unknown accuracy is 0.
  std::vector<VotingPair> pairs() const;
  /// The first member without an accuracy on validation data; null: all have one.
  const EnsembleMember* without_accuracy() const;
};

/// Assembles an ensemble. Two networks belong to one set if their models are the same. Throws
/// runner::StageError, kLabelOutOfRange, naming every pair of `classes` with no network or with two
/// in a set; and networks that are of no pair, or whose classes are not among `classes`.
Ensemble make_ensemble(const std::vector<std::shared_ptr<const Checkpoint>>& networks,
                       const std::vector<std::string>& classes);

}  // namespace stages
