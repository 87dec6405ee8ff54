#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

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
  double margin = 0;     ///< between the two best scores, as a share of all scores; 0 where it is tied
};

/// `probabilities` are those of the second classes of `pairs`, in their order; the pairs of one set of networks come in
/// the order of their classes, one set after the other. kSeedWeighted takes five classes.
Vote vote(VoteRule rule, std::span<const VotingPair> pairs, std::span<const double> probabilities, std::int64_t classes,
          const VoteOptions& options);

}  // namespace stages
