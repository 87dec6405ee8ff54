#include "stages/retina/pair_table.h"

#include <nlohmann/json.hpp>

#include "runner/shared/text/csv.h"
#include "stages/evaluate/classification_curves.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& number) {
  return number ? Json(*number) : Json(nullptr);
}

}  // namespace

std::vector<double> PairTable::probabilities(std::size_t row, const VoteOptions& options) const {
  const std::size_t members = logits.size() / names.size();
  std::vector<double> all;
  for (std::size_t i = 0; i < members; ++i)
    all.push_back(pair_probability(logits[row * members + i], options));
  return all;
}

SetAlone set_alone(const PairTable& table, const Ensemble& ensemble, std::size_t set) {
  SetAlone alone{.ensemble = {.classes = ensemble.classes, .members = {}, .sets = 1},
                 .table = {.names = table.names, .labels = table.labels, .logits = {}}};
  for (const EnsembleMember& member : ensemble.members) {
    if (member.set != set) continue;
    alone.ensemble.members.push_back(member);
    alone.ensemble.members.back().set = 0;
  }
  const std::size_t members = ensemble.members.size();
  for (std::size_t row = 0; row < table.samples(); ++row) {
    for (std::size_t i = 0; i < members; ++i) {
      if (ensemble.members[i].set == set)
        alone.table.logits.push_back(table.logits[row * members + i]);
    }
  }
  return alone;
}

PairQuality pair_quality(const PairTable& table, const Ensemble& ensemble, std::size_t member,
                         const VoteOptions& options) {
  const EnsembleMember& pair = ensemble.members[member];
  PairQuality quality;
  std::int64_t right = 0;
  std::vector<Detected> detected;
  for (std::size_t row = 0; row < table.samples(); ++row) {
    const std::int64_t label = table.labels[row];
    if (label != pair.first && label != pair.second) continue;
    const double p =
        pair_probability(table.logits[row * ensemble.members.size() + member], options);
    const bool is_second = label == pair.second;
    ++quality.samples;
    if ((p > options.threshold) == is_second) ++right;
    detected.push_back({p, is_second});
  }
  if (quality.samples == 0) return quality;
  quality.accuracy = static_cast<double>(right) / static_cast<double>(quality.samples);
  if (const auto curve = roc_curve(std::move(detected))) quality.area = curve->area;
  return quality;
}

Json pairs_json(const PairTable& table, const Ensemble& ensemble, const VoteOptions& options) {
  Json all = Json::array();
  for (std::size_t i = 0; i < ensemble.members.size(); ++i) {
    const EnsembleMember& member = ensemble.members[i];
    const PairQuality quality = pair_quality(table, ensemble, i, options);
    const auto validation = member.checkpoint->validation.find("accuracy");
    all.push_back({{"pair", ensemble.name_of(member)},
                   {"first", ensemble.classes[static_cast<std::size_t>(member.first)]},
                   {"second", ensemble.classes[static_cast<std::size_t>(member.second)]},
                   {"set", member.set},
                   {"samples", quality.samples},
                   {"accuracy", number_or_null(quality.accuracy)},
                   {"auc", number_or_null(quality.area)},
                   {"validation_accuracy", validation == member.checkpoint->validation.end()
                                               ? Json(nullptr)
                                               : Json(validation->second)},
                   {"epoch", member.checkpoint->epoch}});
  }
  return all;
}

std::string pair_logits_csv(const PairTable& table, const Ensemble& ensemble) {
  std::vector<std::string> fields = {"name", "grade"};
  for (const EnsembleMember& member : ensemble.members) fields.push_back(ensemble.name_of(member));
  std::string text = runner::csv_line(fields);
  for (std::size_t row = 0; row < table.samples(); ++row) {
    fields = {table.names[row], ensemble.classes[static_cast<std::size_t>(table.labels[row])]};
    for (std::size_t i = 0; i < ensemble.members.size(); ++i)
      fields.push_back(runner::csv_number(table.logits[row * ensemble.members.size() + i]));
    text += runner::csv_line(fields);
  }
  return text;
}

Decisions decide(VoteRule rule, const PairTable& table, const Ensemble& ensemble,
                 const VoteOptions& options, std::optional<double> abstain_below) {
  const std::vector<VotingPair> pairs = ensemble.pairs();
  Decisions decisions;
  for (std::size_t row = 0; row < table.samples(); ++row) {
    Vote one =
        vote(rule, pairs, table.probabilities(row, options), std::ssize(ensemble.classes), options);
    const bool abstains = abstain_below && one.margin < *abstain_below;
    decisions.tied += one.is_tied;
    decisions.abstained += abstains;
    decisions.votes.push_back(std::move(one));
    decisions.abstains.push_back(abstains);
  }
  return decisions;
}

std::string votes_csv(const PairTable& table, const Ensemble& ensemble, const Decisions& decisions,
                      const VoteOptions& options) {
  std::vector<std::string> fields = {"name", "grade", "prediction", "tied", "margin"};
  for (const std::string& name : ensemble.classes) fields.push_back("score_" + name);
  for (const EnsembleMember& member : ensemble.members)
    fields.push_back("p_" + ensemble.name_of(member));
  if (!table.groups.empty()) fields.emplace_back("group");
  std::string text = runner::csv_line(fields);
  for (std::size_t row = 0; row < table.samples(); ++row) {
    const Vote& one = decisions.votes[row];
    fields = {table.names[row], ensemble.classes[static_cast<std::size_t>(table.labels[row])],
              decisions.abstains[row] ? "" : ensemble.classes[static_cast<std::size_t>(one.winner)],
              one.is_tied ? "true" : "false", runner::csv_number(one.margin)};
    for (const double score : one.scores) fields.push_back(runner::csv_number(score));
    for (const double p : table.probabilities(row, options))
      fields.push_back(runner::csv_number(p));
    if (!table.groups.empty()) fields.push_back(table.groups[row]);
    text += runner::csv_line(fields);
  }
  return text;
}

}  // namespace stages
