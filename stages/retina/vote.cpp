#include "stages/retina/vote.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/artifact/model.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

using Scores = std::vector<double>;

struct Opinions {
  std::span<const VotingPair> pairs;
  std::span<const double> probabilities;
  std::int64_t classes;
};

/// Returns, for each class, the sum over its networks of the class's probability times weight(pair,
/// p).
Scores weighted_sum(const Opinions& opinions,
                    const std::function<double(const VotingPair&, double)>& weight) {
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
    ++scores[static_cast<std::size_t>(opinions.probabilities[i] > threshold ? pair.second
                                                                            : pair.first)];
  }
  return scores;
}

Scores coupled(const Opinions& opinions) {
  std::vector<PairOpinion> known;
  for (std::size_t i = 0; i < opinions.pairs.size(); ++i)
    known.push_back(
        {opinions.pairs[i].first, opinions.pairs[i].second, 1 - opinions.probabilities[i]});
  return couple(known, opinions.classes);
}

/// Reproduces three bugs in the published program. The weights of two classes are multiplied in
/// place for each of their pairs, so they grow with every pair. The accuracy is in percent, so
/// every network gets the bonus for a good network. The divisor of a score includes both the grown
/// weights and the bonuses.
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

std::int64_t winner_of(const std::vector<std::int64_t>& tied, const Opinions& opinions,
                       TieBreak tie_break) {
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

bool needs_accuracies(VoteRule rule) {
  return rule == VoteRule::kAccuracyWeighted || rule == VoteRule::kSeedWeighted;
}

double pair_probability(double logit, const VoteOptions& options) {
  return 1 / (1 + std::exp(-logit / options.temperature));
}

Vote vote(VoteRule rule, std::span<const VotingPair> pairs, std::span<const double> probabilities,
          std::int64_t classes, const VoteOptions& options) {
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

std::vector<double> couple(const std::vector<PairOpinion>& opinions, std::int64_t classes) {
  // Without this bound, a class that never wins would converge to 0 and never reach it.
  constexpr double kLeast = 1e-7, kClose = 1e-13;
  constexpr int kMostRounds = 10'000;
  const auto n = static_cast<std::size_t>(classes);
  std::vector<double> wins(n, 0), count(n * n, 0);
  for (const auto& [first, second, share] : opinions) {
    const auto i = static_cast<std::size_t>(first), j = static_cast<std::size_t>(second);
    const double kept = std::clamp(share, kLeast, 1 - kLeast);
    wins[i] += kept;
    wins[j] += 1 - kept;
    ++count[i * n + j];
    ++count[j * n + i];
  }
  std::vector<double> p(n);
  double all = 0;
  for (const double won : wins) all += won;
  for (std::size_t i = 0; i < n; ++i) p[i] = wins[i] / all;
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double expected = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (count[i * n + j] > 0) expected += count[i * n + j] * p[i] / (p[i] + p[j]);
      }
      if (expected <= 0) continue;
      const double factor = wins[i] / expected;
      moved = std::max(moved, std::abs(factor - 1));
      p[i] *= factor;
    }
    double sum = 0;
    for (const double share : p) sum += share;
    for (double& share : p) share /= sum;
    if (moved < kClose) break;
  }
  return p;
}

Voting read_voting(runner::ConfigReader& reader) {
  Voting voting;
  voting.decides = runner::choice<VoteRule>(reader, "decide_by", kVoteRules);
  voting.options.tie_break = runner::choice<TieBreak>(reader, "tie_break", kTieBreaks);
  reader.read("threshold", voting.options.threshold);
  reader.read("temperature", voting.options.temperature);
  reader.read("abstain_below", voting.abstain_below);
  return voting;
}

namespace {

constexpr std::size_t kListedPairs = 20;

[[noreturn]] void refuse_networks(const std::string& message, const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kLabelOutOfRange, message).with_help(help);
}

std::int64_t number_of(const std::string& name, const std::vector<std::string>& classes) {
  if (const auto place = place_of_name(name, classes)) return static_cast<std::int64_t>(*place);
  refuse_networks(
      "a network of the ensemble was trained on the class '" + name + "', which the test set lacks",
      "use test data with the classes that it was trained on; the test set has " +
          runner::listed(classes, kListedPairs, "'"));
}

EnsembleMember member_of(const std::shared_ptr<const Checkpoint>& network,
                         const std::vector<std::string>& classes) {
  if (network->pair_of == 0 || network->classes.size() != 2) {
    refuse_networks("a network of the ensemble has a logit for each of " +
                        std::to_string(network->classes.size()) +
                        " classes, but it must have a single logit for two classes",
                    "train it with train.binary, or evaluate it with evaluate.grading");
  }
  EnsembleMember member{network, number_of(network->classes[0], classes),
                        number_of(network->classes[1], classes)};
  member.is_turned = member.first > member.second;
  if (member.is_turned) std::swap(member.first, member.second);
  return member;
}

std::vector<std::string> names_of(const std::vector<const Model*>& models) {
  std::vector<std::string> plain, names;
  for (const Model* model : models) {
    const auto* named = dynamic_cast<const NamedModel*>(model);
    plain.push_back(named ? named->architecture() : "");
  }
  for (std::size_t set = 0; set < plain.size(); ++set) {
    const std::string number = std::to_string(set);
    const bool is_alone = std::ranges::count(plain, plain[set]) == 1;
    names.push_back(plain[set].empty() ? number
                    : is_alone         ? plain[set]
                                       : plain[set] + "." + number);
  }
  return names;
}

/// Checks that every set has every pair exactly once.
void check_pairs(const Ensemble& ensemble) {
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, int> counts;
  for (const EnsembleMember& member : ensemble.members)
    ++counts[{member.set, member.first, member.second}];
  std::vector<std::string> missing, repeated;
  for (std::size_t set = 0; set < ensemble.sets; ++set) {
    for (std::int64_t first = 0; first < std::ssize(ensemble.classes); ++first) {
      for (std::int64_t second = first + 1; second < std::ssize(ensemble.classes); ++second) {
        const int count = counts[{set, first, second}];
        if (count != 1)
          (count == 0 ? missing : repeated)
              .push_back(ensemble.name_of({nullptr, first, second, false, set}));
      }
    }
  }
  if (missing.empty() && repeated.empty()) return;
  std::string message = "the ensemble needs one network for each class pair";
  if (!missing.empty())
    message += "; there is none for " + runner::listed(missing, kListedPairs, "'");
  if (!repeated.empty())
    message += "; there are several for " + runner::listed(repeated, kListedPairs, "'");
  refuse_networks(message, "list every class pair once in the foreach of the training stage");
}

}  // namespace

std::string Ensemble::name_of(const EnsembleMember& member) const {
  const std::string name = classes[static_cast<std::size_t>(member.first)] + "-" +
                           classes[static_cast<std::size_t>(member.second)];
  return sets > 1 ? name + "." + std::to_string(member.set) : name;
}

std::vector<VotingPair> Ensemble::pairs() const {
  std::vector<VotingPair> pairs;
  for (const EnsembleMember& member : members) {
    const auto accuracy = member.checkpoint->validation.find("accuracy");
    pairs.push_back({member.first, member.second,
                     accuracy == member.checkpoint->validation.end() ? 0 : accuracy->second});
  }
  return pairs;
}

const EnsembleMember* Ensemble::without_accuracy() const {
  const auto found = std::ranges::find_if(members, [](const EnsembleMember& member) {
    return !member.checkpoint->validation.contains("accuracy");
  });
  return found == members.end() ? nullptr : &*found;
}

Ensemble make_ensemble(const std::vector<std::shared_ptr<const Checkpoint>>& networks,
                       const std::vector<std::string>& classes) {
  Ensemble ensemble{.classes = classes};
  std::vector<const Model*> models;
  for (const auto& network : networks) {
    EnsembleMember member = member_of(network, classes);
    const auto model = std::ranges::find(models, network->model.get());
    member.set = static_cast<std::size_t>(model - models.begin());
    if (model == models.end()) models.push_back(network->model.get());
    ensemble.members.push_back(std::move(member));
  }
  ensemble.sets = std::max<std::size_t>(1, models.size());
  ensemble.models = names_of(models);
  std::ranges::stable_sort(ensemble.members, {}, [](const EnsembleMember& member) {
    return std::tuple(member.set, member.first, member.second);
  });
  check_pairs(ensemble);
  return ensemble;
}

}  // namespace stages
