#include "stages/retina/vote.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>

#include "stages/retina/pairwise_coupling.h"

namespace stages {
namespace {

using Scores = std::vector<double>;

struct Opinions {
  std::span<const VotingPair> pairs;
  std::span<const double> probabilities;
  std::int64_t classes;
};

/// The sum over the networks of what `weight` makes of each, times the probabilities of its classes.
Scores weighted_sum(const Opinions& opinions, const std::function<double(const VotingPair&, double)>& weight) {
  Scores scores(static_cast<std::size_t>(opinions.classes), 0);
  for (std::size_t i = 0; i < opinions.pairs.size(); ++i) {
    const VotingPair& pair = opinions.pairs[i];
    const double p = opinions.probabilities[i], factor = weight(pair, p);
    scores[static_cast<std::size_t>(pair.first)] += factor * (1 - p);
    scores[static_cast<std::size_t>(pair.second)] += factor * p;
  }
  return scores;
}

double confidence(double p) { return 2 * std::abs(p - 0.5); }

Scores soft(const Opinions& opinions) {
  return weighted_sum(opinions, [](const VotingPair&, double) { return 1; });
}

Scores majority(const Opinions& opinions, double threshold) {
  Scores scores(static_cast<std::size_t>(opinions.classes), 0);
  for (std::size_t i = 0; i < opinions.pairs.size(); ++i) {
    const VotingPair& pair = opinions.pairs[i];
    ++scores[static_cast<std::size_t>(opinions.probabilities[i] > threshold ? pair.second : pair.first)];
  }
  return scores;
}

Scores coupled(const Opinions& opinions) {
  std::vector<PairOpinion> known;
  for (std::size_t i = 0; i < opinions.pairs.size(); ++i)
    known.push_back({opinions.pairs[i].first, opinions.pairs[i].second, 1 - opinions.probabilities[i]});
  return couple(known, opinions.classes);
}

/// The weights of two classes are multiplied in place each time one of their pairs comes up, and so grow along the
/// pairs; the accuracy is one in percent, so that its bonus is given to all; and the sum of the weights that a score is
/// divided by holds them too.
Scores as_published(const Opinions& opinions) {
  constexpr double kPercent = 100, kBonus = 1.5, kBonusAbove = 0.95, kTiny = 1e-8;
  constexpr std::size_t kSevere = 3, kProliferative = 4;
  assert(opinions.classes == 5);
  Scores weights = {1, 1, 1, 1, 1.2};
  const auto boosted = [&](std::int64_t label) {
    double& weight = weights[static_cast<std::size_t>(label)];
    if (label == kProliferative) weight *= 1.5;
    if (label == kSevere) weight *= 1.2;
    return weight;
  };
  Scores numerators(weights.size(), 0), denominators(weights.size(), 0);
  for (std::size_t i = 0; i < opinions.pairs.size(); ++i) {
    const auto& [first, second, accuracy] = opinions.pairs[i];
    const double p = opinions.probabilities[i], percent = kPercent * accuracy;
    const double common = percent * percent * (percent > kBonusAbove ? kBonus : 1) * confidence(p);
    const auto add = [&](std::int64_t label, double share) {
      const double weight = boosted(label) * common;
      numerators[static_cast<std::size_t>(label)] += share * weight;
      denominators[static_cast<std::size_t>(label)] += weight;
    };
    add(first, 1 - p);
    add(second, p);
  }
  Scores scores(weights.size());
  double sum = 0;
  for (std::size_t label = 0; label < scores.size(); ++label)
    sum += scores[label] = std::exp(numerators[label] / (denominators[label] + kTiny));
  for (double& score : scores) score /= sum;
  return scores;
}

Scores scores_by(VoteRule rule, const Opinions& opinions, const VoteOptions& options) {
  switch (rule) {
    case VoteRule::kMajority:
      return majority(opinions, options.threshold);
    case VoteRule::kSoft:
      return soft(opinions);
    case VoteRule::kAccuracyWeighted:
      return weighted_sum(opinions, [](const VotingPair& pair, double) { return pair.accuracy; });
    case VoteRule::kConfidenceWeighted:
      return weighted_sum(opinions, [](const VotingPair&, double p) { return confidence(p); });
    case VoteRule::kPairwiseCoupling:
      return coupled(opinions);
    case VoteRule::kSeedWeighted:
      return as_published(opinions);
  }
  return {};
}

std::int64_t winner_of(const std::vector<std::int64_t>& tied, const Opinions& opinions, TieBreak tie_break) {
  if (tied.size() == 1 || tie_break == TieBreak::kLowest) return tied.front();
  if (tie_break != TieBreak::kProbabilitySum) return tied.back();
  const Scores sums = soft(opinions);
  std::int64_t best = tied.front();
  for (const std::int64_t label : tied) {
    if (sums[static_cast<std::size_t>(label)] >= sums[static_cast<std::size_t>(best)]) best = label;
  }
  return best;
}

}  // namespace

std::string_view name(VoteRule rule) {
  return std::ranges::find(kVoteRules, rule, [](const auto& entry) { return entry.second; })->first;
}

bool needs_accuracies(VoteRule rule) { return rule == VoteRule::kAccuracyWeighted || rule == VoteRule::kSeedWeighted; }

double pair_probability(double logit, const VoteOptions& options) {
  return 1 / (1 + std::exp(-logit / options.temperature));
}

Vote vote(VoteRule rule, std::span<const VotingPair> pairs, std::span<const double> probabilities, std::int64_t classes,
          const VoteOptions& options) {
  assert(pairs.size() == probabilities.size() && classes >= 2);
  const Opinions opinions{pairs, probabilities, classes};
  Vote result{.scores = scores_by(rule, opinions, options)};
  constexpr double kRounding = 1e-9;
  const double best = *std::ranges::max_element(result.scores);
  std::vector<std::int64_t> tied;
  double next = 0, sum = 0;
  for (std::int64_t label = 0; label < classes; ++label) {
    const double score = result.scores[static_cast<std::size_t>(label)];
    sum += score;
    if (score >= best * (1 - kRounding)) tied.push_back(label);
    else next = std::max(next, score);
  }
  result.winner = winner_of(tied, opinions, options.tie_break);
  result.is_tied = tied.size() > 1;
  result.margin = result.is_tied || sum <= 0 ? 0 : (best - next) / sum;
  return result;
}

}  // namespace stages
