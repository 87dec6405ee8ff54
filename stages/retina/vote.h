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
  kSoft,                ///< sum of the networks' probabilities
  kAccuracyWeighted,    ///< kSoft, weighted by each network's accuracy on the validation data
  kConfidenceWeighted,  ///< kSoft, weighted by how decisive each output is, 2 |p - 0.5|
  kPairwiseCoupling,    ///< the class probabilities that best fit the networks' outputs: couple()
  kSeedWeighted,        ///< as published in October 2025, including its bugs; for five classes
};

/// The names of the rules in recipes.
inline constexpr std::array<std::pair<std::string_view, VoteRule>, 6> kVoteRules = {
    {{"majority", VoteRule::kMajority},
     {"soft", VoteRule::kSoft},
     {"accuracy_weighted", VoteRule::kAccuracyWeighted},
     {"confidence_weighted", VoteRule::kConfidenceWeighted},
     {"pairwise_coupling", VoteRule::kPairwiseCoupling},
     {"seed_weighted", VoteRule::kSeedWeighted}}};

std::string_view name(VoteRule rule);
/// True if the rule needs the accuracy of every network.
bool needs_accuracies(VoteRule rule);

/// Which class wins if several have the best score.
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
  double accuracy = 1;  ///< accuracy on the validation data
};

/// Returns the probability of a pair's second class.
double pair_probability(double logit, const VoteOptions& options);

/// The decision that the networks make on one sample under one rule.
struct Vote {
  std::vector<double> scores;  ///< by class
  std::int64_t winner = 0;
  bool is_tied = false;  ///< another class has the same score, up to rounding
  double margin = 0;  ///< difference between the two best scores, as a fraction of the sum of all
                      ///< scores; 0 if tied
};

/// Combines the networks' outputs for one sample according to a rule. `probabilities` are the
/// probabilities of the second classes of `pairs`, in the same order. `pairs` are ordered by set of
/// networks, then by classes. kSeedWeighted requires five classes.
Vote vote(VoteRule rule, std::span<const VotingPair> pairs, std::span<const double> probabilities,
          std::int64_t classes, const VoteOptions& options);

/// The probability of `first` against `second`, given that one of the two is correct.
struct PairOpinion {
  std::int64_t first = 0, second = 0;
  double share = 0.5;  ///< probability of the first, in [0, 1]
};

/// Returns the class probabilities, which sum to 1, that best fit these opinions in
/// Kullback-Leibler distance, if each pair of classes has the same number of opinions (Hastie and
/// Tibshirani, "Classification by Pairwise Coupling", 1998, algorithm 1). They satisfy sum_j r_ij =
/// sum_j p_i / (p_i + p_j) for every class i.
std::vector<double> couple(const std::vector<PairOpinion>& opinions, std::int64_t classes);

/// How an ensemble decides.
struct Voting {
  VoteRule decides = VoteRule::kMajority;
  VoteOptions options;
  std::optional<double> abstain_below;  ///< the ensemble abstains below this margin
};

/// Reads the options decide_by, tie_break, threshold, temperature and abstain_below of
/// evaluate.pairwise_ensemble.
Voting read_voting(runner::ConfigReader& reader);

/// A network of an ensemble.
struct EnsembleMember {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::int64_t first = 0,
               second = 0;  ///< class numbers; the first is the lower one
  bool is_turned = false;   ///< its logit is for the first class: the network was trained with the
                            ///< classes swapped
  std::size_t set = 0;      ///< index of its set, which contains the networks of one model
};

/// Two-class networks that jointly choose among all classes. Every model has one network per class
/// pair.
struct Ensemble {
  std::vector<std::string> classes;
  std::vector<EnsembleMember> members;  ///< set by set, in the order of their classes
  std::size_t sets = 0;
  /// The name of each set's model, such as "densenet121", followed by the set's number if several
  /// models have the same name. A model without a name has only the set's number.
  std::vector<std::string> models = {};

  /// Returns "mild-severe" or, if there are several sets, "mild-severe.1" with the set's number.
  std::string name_of(const EnsembleMember& member) const;
  /// Returns the members as voters; an unknown accuracy is 0.
  std::vector<VotingPair> pairs() const;
  /// Returns the first member without an accuracy on validation data; null if all have one.
  const EnsembleMember* without_accuracy() const;
};

/// Assembles an ensemble. Networks of the same model form a set. Throws runner::StageError
/// (kLabelOutOfRange) naming every pair of `classes` for which a set has no network or more than
/// one, or the first network that does not distinguish two of `classes`.
Ensemble make_ensemble(const std::vector<std::shared_ptr<const Checkpoint>>& networks,
                       const std::vector<std::string>& classes);

}  // namespace stages
