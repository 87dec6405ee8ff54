#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/results.h"
#include "stages/evaluate/example_images.h"
#include "stages/evaluate/predictor.h"
#include "stages/evaluate/trained_images.h"
#include "stages/retina/grade_metrics.h"
#include "stages/retina/pair_table.h"
#include "stages/retina/vote.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

struct EnsembleConfig {
  Predictor::Options predictor;
  bool allow_trained = false;
  std::int64_t examples = 0;    // number of images in each group
  std::vector<VoteRule> rules;  // the rules other than the deciding one
  Voting voting;
  GradeReportOptions reported;
};

/// Values computed from the ensemble's inputs.
struct EnsembleInputs {
  explicit EnsembleInputs(const runner::Inputs& inputs)
      : test(inputs.get<Dataset>("test")),
        policy(inputs.find<MemoryPolicy>("memory")),
        ensemble(make_ensemble(inputs.all<Checkpoint>("checkpoint"), test->describe().classes)) {}

  Predictor predictor(const EnsembleMember& member, const Predictor::Options& options) const {
    Predictor::Options own = options;
    own.told = told;
    own.outputs = [checkpoint = member.checkpoint, flip = options.flip](
                      torch::nn::Module& network, const NamedTensors& inputs) {
      return flipped_mean(inputs, flip, [&](const NamedTensors& seen) {
        return checkpoint->model->forward(network, seen).at("logits");
      });
    };
    return Predictor(test, member.checkpoint, policy, own);
  }

  std::shared_ptr<const Dataset> test;
  std::shared_ptr<const MemoryPolicy> policy;
  Ensemble ensemble;
  std::shared_ptr<std::set<std::string>> told =
      std::make_shared<std::set<std::string>>();  // shared by all networks
};

/// The samples with a decision, and the probabilities of all classes for each of them.
struct Decided {
  GradedSamples graded;
  ClassifiedSamples samples;
  std::vector<std::size_t> rows = {};  // rows of the samples in the table
};

Decided decided_samples(const PairTable& table, const Ensemble& ensemble,
                        const Decisions& decisions, const VoteOptions& voting) {
  Decided decided;
  decided.graded.grades = ensemble.classes;
  const std::vector<VotingPair> pairs = ensemble.pairs();
  std::vector<double> logits;
  for (std::size_t row = 0; row < table.samples(); ++row) {
    if (decisions.abstains[row]) continue;
    decided.rows.push_back(row);
    decided.samples.names.push_back(table.names[row]);
    decided.graded.labels.push_back(table.labels[row]);
    decided.graded.predicted.push_back(decisions.votes[row].winner);
    const Vote coupled = vote(VoteRule::kPairwiseCoupling, pairs, table.probabilities(row, voting),
                              std::ssize(ensemble.classes), voting);
    for (const double probability : coupled.scores) {
      decided.graded.scores.push_back(probability);
      logits.push_back(std::log(probability));
    }
  }
  const auto rows = std::ssize(decided.graded.labels), classes = std::ssize(ensemble.classes);
  decided.samples.logits = torch::tensor(logits, at::kDouble).reshape({rows, classes});
  decided.samples.labels = torch::tensor(decided.graded.labels, at::kLong);
  decided.samples.predicted = decided.graded.predicted;
  return decided;
}

/// Returns the facts about the vote on a sample: {"votes": [{"class", "score"}], "tied"}, with the
/// classes by decreasing score.
Json votes_json(const Vote& vote, const Ensemble& ensemble) {
  std::vector<std::size_t> order(ensemble.classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t label) { return vote.scores[label]; });
  Json votes = Json::array();
  for (const std::size_t label : order)
    votes.push_back({{"class", ensemble.classes[label]}, {"score", vote.scores[label]}});
  return {{"votes", std::move(votes)}, {"tied", vote.is_tied}};
}

/// Returns the metrics of a rule; samples are ranked by its scores.
Json rule_json(const PairTable& table, const Ensemble& ensemble, const Decisions& decisions,
               std::optional<std::int64_t> referable_from) {
  GradedSamples graded{.grades = ensemble.classes};
  for (std::size_t row = 0; row < table.samples(); ++row) {
    if (decisions.abstains[row]) continue;
    graded.labels.push_back(table.labels[row]);
    graded.predicted.push_back(decisions.votes[row].winner);
    for (const double score : decisions.votes[row].scores) graded.scores.push_back(score);
  }
  Json json = {{"tied", decisions.tied}, {"abstained", decisions.abstained}};
  if (graded.labels.empty()) return json;
  const Grading grading = grade(graded, {.referable_from = referable_from}, /*seed=*/0);
  for (const auto& [name, value] : grading.numbers) {
    if (name.find('/') == std::string::npos) json[name] = value;
  }
  return json;
}

/// Returns the latest epoch and step of the members' checkpoints.
Checkpoint last_of(const Ensemble& ensemble) {
  Checkpoint when;
  for (const EnsembleMember& member : ensemble.members) {
    when.epoch = std::max(when.epoch, member.checkpoint->epoch);
    when.step = std::max(when.step, member.checkpoint->step);
  }
  return when;
}

class PairwiseEnsembleStage final : public runner::Stage {
 public:
  explicit PairwiseEnsembleStage(EnsembleConfig config) : config_(std::move(config)) {}

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const EnsembleInputs parts = checked(inputs);
    check_trained_images(*parts.test, config_.allow_trained, context);
    // Only one network is in memory at a time, so the largest one counts. Networks of the same
    // model need the same memory.
    std::optional<PlannedForward> largest;
    for (std::size_t i = 0; i < parts.ensemble.members.size(); ++i) {
      const EnsembleMember& member = parts.ensemble.members[i];
      if (i > 0 && parts.ensemble.members[i - 1].set == member.set) continue;
      PlannedForward planned = parts.predictor(member, config_.predictor).planned(context);
      config_.predictor.batch_size = std::min(config_.predictor.batch_size, planned.batch_size);
      if (!largest || planned.plan.needed > largest->plan.needed) largest = std::move(planned);
    }
    context.plan(std::move(largest->plan));
    return planned_results(parts.test->describe().size, std::ssize(parts.ensemble.classes));
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const EnsembleInputs parts = checked(inputs);
    check_trained_images(*parts.test, config_.allow_trained, context);
    const Ensemble& ensemble = parts.ensemble;
    std::int64_t skipped = 0;
    const PairTable table = table_of(parts, skipped, context);
    runner::write_atomically(context.node().folder / "pair_logits.csv",
                             pair_logits_csv(table, ensemble));
    report_remarks({parts.test.get()}, last_of(ensemble).step, context);

    Json rules = Json::object();
    NamedNumbers numbers;
    for (const VoteRule rule : rules_to_measure(ensemble, context)) {
      const Decisions decisions =
          decide(rule, table, ensemble, config_.voting.options, config_.voting.abstain_below);
      Json json = rule_json(table, ensemble, decisions, config_.reported.grading.referable_from);
      for (const char* number : {"accuracy", "quadratic_kappa"}) {
        if (json.contains(number))
          numbers.emplace_back(std::string(name(rule)) + "_" + number, json[number].get<double>());
      }
      rules[std::string(name(rule))] = std::move(json);
    }
    const Json models = ensemble.sets > 1 ? models_json(table, ensemble, numbers) : Json::array();
    const Decisions decisions = decide(config_.voting.decides, table, ensemble,
                                       config_.voting.options, config_.voting.abstain_below);
    if (config_.reported.csv) {
      runner::write_atomically(context.node().folder / "predictions.csv",
                               votes_csv(table, ensemble, decisions, config_.voting.options));
    }
    numbers.emplace_back("tied", static_cast<double>(decisions.tied));
    numbers.emplace_back("abstained", static_cast<double>(decisions.abstained));
    Decided decided = decided_samples(table, ensemble, decisions, config_.voting.options);
    if (decided.graded.labels.empty()) {
      throw StageError(ErrorCode::kTooFewSamples, "the ensemble abstains on every sample")
          .at("/abstain_below")
          .with_help("lower abstain_below, or set it to null");
    }
    decided.samples.skipped = skipped;
    write_example_images(
        decided.samples, ensemble.classes, *parts.test, config_.examples, context.node().folder,
        [&](std::size_t row) { return votes_json(decisions.votes[decided.rows[row]], ensemble); });
    say_votes(decisions, table, context);
    Json besides = {{"decided_by", name(config_.voting.decides)},
                    {"tied", decisions.tied},
                    {"abstained", decisions.abstained},
                    {"rules", std::move(rules)},
                    {"pairs", pairs_json(table, ensemble, config_.voting.options)}};
    if (!models.empty()) besides["models"] = models;
    return report_grades({.samples = decided.samples,
                          .graded = decided.graded,
                          .checkpoint = last_of(ensemble),
                          .besides = besides,
                          .numbers = std::move(numbers)},
                         config_.reported, context);
  }

 private:
  EnsembleInputs checked(const runner::Inputs& inputs) const {
    EnsembleInputs parts(inputs);
    check_grades(*parts.test, parts.ensemble.classes, config_.reported.grading);
    const auto is_published = [](VoteRule rule) { return rule == VoteRule::kSeedWeighted; };
    if ((is_published(config_.voting.decides) ||
         std::ranges::any_of(config_.rules, is_published)) &&
        parts.ensemble.classes.size() != 5) {
      throw StageError(ErrorCode::kOptionConflict,
                       "seed_weighted is for five grades, but the test set has " +
                           std::to_string(parts.ensemble.classes.size()))
          .at("/votes")
          .with_help("leave seed_weighted out: it only reproduces published numbers");
    }
    return parts;
  }

  /// Returns all rules that can be measured, including the deciding rule. Throws if the deciding
  /// rule cannot be measured.
  std::vector<VoteRule> rules_to_measure(const Ensemble& ensemble,
                                         runner::RunContext& context) const {
    std::vector<VoteRule> rules;
    const EnsembleMember* unknown = ensemble.without_accuracy();
    for (const auto& [word, rule] : kVoteRules) {
      const bool decides = rule == config_.voting.decides;
      if (!decides && std::ranges::find(config_.rules, rule) == config_.rules.end()) continue;
      if (!unknown || !needs_accuracies(rule)) {
        rules.push_back(rule);
        continue;
      }
      const std::string why =
          std::string(word) +
          " weights networks by their accuracy on validation data, but the accuracy of '" +
          ensemble.name_of(*unknown) + "' was not measured";
      if (!decides) {
        context.say(why + ": it is left out");
        continue;
      }
      throw StageError(ErrorCode::kOptionConflict, why)
          .at("/decide_by")
          .with_help("train with validation data, or choose another rule");
    }
    return rules;
  }

  /// Returns the metrics that each model's networks achieve on their own under the deciding rule:
  /// [{"model", "set", "tied", "abstained", "accuracy", "quadratic_kappa", …}]. Adds accuracy and
  /// quadratic_kappa to `numbers`.
  Json models_json(const PairTable& table, const Ensemble& ensemble, NamedNumbers& numbers) const {
    Json all = Json::array();
    for (std::size_t set = 0; set < ensemble.sets; ++set) {
      const SetAlone alone = set_alone(table, ensemble, set);
      const Decisions decisions = decide(config_.voting.decides, alone.table, alone.ensemble,
                                         config_.voting.options, config_.voting.abstain_below);
      Json json = {{"model", ensemble.models[set]}, {"set", set}};
      json.update(rule_json(alone.table, alone.ensemble, decisions,
                            config_.reported.grading.referable_from));
      for (const char* number : {"accuracy", "quadratic_kappa"}) {
        if (json.contains(number))
          numbers.emplace_back(std::string(number) + "/" + ensemble.models[set],
                               json[number].get<double>());
      }
      all.push_back(std::move(json));
    }
    return all;
  }

  /// Runs one network after another, with only one in memory at a time.
  PairTable table_of(const EnsembleInputs& parts, std::int64_t& skipped,
                     runner::RunContext& context) const {
    const std::size_t members = parts.ensemble.members.size();
    PairTable table;
    for (std::size_t i = 0; i < members; ++i) {
      const EnsembleMember& member = parts.ensemble.members[i];
      const Predictor network = parts.predictor(member, config_.predictor);
      const ScopedMemoryBudget budget = network.hold_budget(context);
      context.detail("evaluating the network of " + parts.ensemble.name_of(member));
      const ClassifiedSamples said = network.classify(context);
      if (i == 0) {
        table.names = said.names;
        table.groups = said.groups;
        skipped = said.skipped;
        const at::Tensor labels = said.labels.contiguous();
        table.labels.assign(labels.const_data_ptr<std::int64_t>(),
                            labels.const_data_ptr<std::int64_t>() + labels.numel());
        table.logits.resize(table.samples() * members);
      } else if (said.names != table.names) {
        throw StageError(ErrorCode::kStageFailed,
                         "the test set changed while the networks were evaluated")
            .with_help("run it again, and leave the files unchanged");
      }
      const at::Tensor logits = said.logits.flatten().to(at::kDouble).contiguous();
      for (std::size_t row = 0; row < table.samples(); ++row) {
        const double logit = logits.const_data_ptr<double>()[row];
        table.logits[row * members + i] = member.is_turned ? -logit : logit;
      }
    }
    return table;
  }

  void say_votes(const Decisions& decisions, const PairTable& table,
                 runner::RunContext& context) const {
    std::string line = std::string(name(config_.voting.decides)) +
                       " decides: " + std::to_string(decisions.tied) + " of " +
                       std::to_string(table.samples()) + " votes are tied";
    if (config_.voting.abstain_below)
      line += ", " + std::to_string(decisions.abstained) + " samples get no prediction";
    context.say(line);
  }

  EnsembleConfig config_;  // plan() reduces the batch size to what fits in memory
};

VoteRule rule_named(const std::string& word) {
  const auto* const found =
      std::ranges::find(kVoteRules, word, [](const auto& entry) { return entry.first; });
  return found == kVoteRules.end() ? VoteRule::kMajority : found->second;
}

runner::Result<std::unique_ptr<runner::Stage>> create_ensemble(runner::ConfigReader& reader) {
  EnsembleConfig config;
  reader.read("batch_size", config.predictor.batch_size);
  reader.read("allow_trained", config.allow_trained);
  reader.read("examples", config.examples);
  config.predictor.flip = runner::choice<TestTimeFlip>(reader, "test_time_flip", kTestTimeFlips);
  config.predictor.pointer = reader.pointer();
  std::vector<std::string> votes;
  reader.read("votes", votes);
  for (const std::string& word : votes) config.rules.push_back(rule_named(word));
  config.voting = read_voting(reader);
  config.reported = read_grade_report_options(reader);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<PairwiseEnsembleStage>(std::move(config)));
}

}  // namespace

extern const runner::StageKind kEvaluatePairwiseEnsemble = {"evaluate.pairwise_ensemble",
                                                            create_ensemble};

}  // namespace stages
