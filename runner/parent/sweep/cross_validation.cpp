#include "runner/parent/sweep/cross_validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/record/run_metrics.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestFoldRecipe = 16 << 20;
constexpr std::uint64_t kBootstrapSeed = 0;

/// The fold named in a trial's recipe.
struct FoldOfTrial {
  std::int64_t count = 0, index = 0;
  std::string others;  // hash of the rest of the recipe
};

const std::int64_t* integer_in(const Value& map, std::string_view key) {
  const Value* const value = map.find(key);
  return value ? std::get_if<std::int64_t>(&value->data) : nullptr;
}

/// Returns the folds of the first stage that has any; null if there is none.
Value* folds_in(Value& recipe) {
  if (!recipe.map()) return nullptr;
  for (Entry& stage : *recipe.map()) {
    Value* const folds = stage.value.map() ? stage.value.find("folds") : nullptr;
    if (folds && folds->map()) return folds;
  }
  return nullptr;
}

std::optional<FoldOfTrial> fold_of_trial(const SweepLayout& layout, std::uint64_t trial,
                                         Sources& sources) {
  const auto text = real_file_system().read(layout.recipe(trial), kLargestFoldRecipe);
  // Reading the recipes of a large sweep takes seconds, and few sweeps have folds.
  if (!text || text->find("index:") == text->npos) return std::nullopt;
  auto recipe = read_yaml(sources.add(layout.recipe(trial).string(), *text));
  Value* const folds = recipe ? folds_in(*recipe) : nullptr;
  const auto* const count = folds ? integer_in(*folds, "count") : nullptr;
  const auto* const index = folds ? integer_in(*folds, "index") : nullptr;
  if (!count || !index) return std::nullopt;
  FoldOfTrial result{.count = *count, .index = *index, .others = {}};
  folds->find("index")->data = std::int64_t{0};
  result.others = recipe_hash(*recipe);
  return result;
}

Json json_in_run(const std::filesystem::path& file) {
  std::ifstream stream = open_regular(file);
  return parse_json<Json>(stream);
}

/// Returns the evaluations in the graph of a run that are wired to a validation part.
std::vector<std::string> evaluations_of_fold(const std::filesystem::path& run) {
  const Json graph = json_in_run(RunLayout(run).records() / RunRecord::kGraph);
  std::vector<std::string> ids;
  if (!graph.is_object() || !graph.contains("nodes") || !graph["nodes"].is_array()) return ids;
  for (const Json& node : graph["nodes"]) {
    if (!node.is_object() || !node.contains("inputs") || !node["inputs"].is_array()) continue;
    const bool is_evaluation = node.value("kind", Json()).is_string() &&
                               node["kind"].get<std::string>().starts_with("evaluate.");
    const bool is_of_fold = std::ranges::any_of(node["inputs"], [](const Json& edge) {
      return edge.is_object() && edge.value("output", Json()) == "validation" &&
             edge.value("type", Json()) == "dataset";
    });
    if (is_evaluation && is_of_fold && node.value("id", Json()).is_string())
      ids.push_back(node["id"]);
  }
  return ids;
}

/// True for a metric that measures the network's performance on the fold.
bool is_of_quality(std::string_view metric) {
  constexpr std::array<std::string_view, 5> kOthers = {"evaluate/top1_low", "evaluate/top1_high",
                                                       "evaluate/chance", "evaluate/samples",
                                                       "evaluate/seconds"};
  return std::ranges::find(kOthers, metric) == kOthers.end();
}

/// Returns the metrics of `node` or, if it is empty, the validation metrics of the training node.
std::map<std::string, double> metrics_of_fold(const RunMetrics& run, const std::string& node) {
  std::map<std::string, double> metrics;
  if (node.empty()) {
    for (const auto& [name, value] : run.values())
      if (name.find("validation/") != name.npos) metrics[name] = value;
    return metrics;
  }
  const auto found = run.nodes.find(node);
  if (found == run.nodes.end()) return metrics;
  for (const auto& [name, value] : found->second)
    if (name.starts_with("evaluate/") && is_of_quality(name)) metrics[name] = value.value;
  return metrics;
}

/// Returns the settings that all `trials` share, except those that all trials of the sweep share.
std::string shared_settings(const std::vector<const Trial*>& trials,
                            const std::vector<Trial>& all) {
  const auto has = [](const Trial& trial, const std::string& setting) {
    return std::ranges::find(trial.settings, setting) != trial.settings.end();
  };
  std::vector<std::string> shared;
  for (const std::string& setting : trials.front()->settings) {
    const bool is_shared =
        std::ranges::all_of(trials, [&](const Trial* trial) { return has(*trial, setting); });
    const bool is_of_all =
        std::ranges::all_of(all, [&](const Trial& trial) { return has(trial, setting); });
    if (is_shared && !is_of_all) shared.push_back(setting);
  }
  return join(shared, " ");
}

std::string folds_text(const std::vector<std::int64_t>& folds) {
  std::vector<std::string> numbers;
  for (const std::int64_t fold : folds) numbers.push_back(std::to_string(fold));
  return (folds.size() == 1 ? "fold " : "folds ") + join(numbers, ", ");
}

/// Returns a sample that is in two folds, for a message; nullopt if there is none.
std::optional<std::string> sample_in_two_folds(const std::vector<FoldResult>& folds) {
  std::map<std::string, std::int64_t> fold_of;
  for (const FoldResult& one : folds) {
    for (const auto& row : one.predictions->rows) {
      const auto [found, is_new] = fold_of.emplace(row[one.predictions->name], one.fold);
      if (!is_new)
        return "'" + row[one.predictions->name] + "' is in " +
               (found->second == one.fold ? folds_text({one.fold}) + " twice"
                                          : folds_text({found->second, one.fold}));
    }
  }
  return std::nullopt;
}

/// Pools the predictions of all folds, or sets `not_pooled`.
void pool(CrossValidation& all) {
  std::vector<std::int64_t> without;
  for (std::int64_t fold = 0; fold < all.count; ++fold) {
    const auto found = std::ranges::find(all.folds, fold, &FoldResult::fold);
    if (found == all.folds.end() || !found->predictions) without.push_back(fold);
  }
  if (!without.empty()) {
    all.not_pooled = folds_text(without) + " of " + std::to_string(all.count) +
                     (without.size() == 1 ? " has" : " have") + " no out-of-fold predictions";
    return;
  }
  if (const auto shared = sample_in_two_folds(all.folds)) {
    all.not_pooled = *shared + ", so the folds do not belong together";
    return;
  }
  std::vector<PredictionTable> tables;
  std::set<std::size_t> ks;
  std::set<std::string> measured;
  for (const FoldResult& one : all.folds) {
    tables.push_back(*one.predictions);
    for (const auto& [name, value] : one.metrics) measured.insert(name);
  }
  for (std::size_t k = 2; k <= tables.front().best.size(); ++k)
    if (measured.contains("evaluate/top" + std::to_string(k))) ks.insert(k);
  PooledMetrics pooled = pooled_metrics(tables, {ks.begin(), ks.end()}, kBootstrapSeed);
  if (pooled.samples == 0) {
    const bool is_empty =
        std::ranges::all_of(tables, [](const PredictionTable& one) { return one.rows.empty(); });
    all.not_pooled = is_empty
                         ? "there are no out-of-fold predictions"
                         : "no metrics can be computed from the predictions of all folds together";
    return;
  }
  for (PooledMetric& metric : pooled.metrics) metric.name = "evaluate/" + metric.name;
  all.pooled = std::move(pooled);
}

/// Trials that differ only in the fold.
struct FoldedTrials {
  std::string others;
  std::int64_t count = 0;
  std::vector<std::pair<std::int64_t, const Trial*>> trials;  // by fold
};

CrossValidation cross_validation(const FoldedTrials& group, const std::string& node,
                                 const SweepLayout& layout) {
  CrossValidation result{
      .settings = {}, .node = node, .count = group.count, .folds = {}, .not_pooled = {}};
  for (const auto& [fold, trial] : group.trials) {
    const bool is_known =
        std::ranges::find(result.folds, fold, &FoldResult::fold) != result.folds.end();
    if (is_known) continue;  // another trial with the same recipe and the same results
    FoldResult& one = result.folds.emplace_back();
    one.fold = fold;
    one.trial = trial->number;
    one.state = trial->state;
    if (trial->state != TrialState::kFinished) continue;
    const std::filesystem::path run = layout.run(trial->number);
    one.metrics = metrics_of_fold(metrics_of_run(run), node);
    if (node.empty()) continue;
    if (auto table = read_prediction_table(run, node)) one.predictions = *std::move(table);
  }
  std::ranges::sort(result.folds, {}, &FoldResult::fold);
  if (node.empty()) result.not_pooled = "no evaluation predicts the folds";
  else pool(result);
  return result;
}

}  // namespace

std::vector<FoldMean> CrossValidation::means() const {
  constexpr std::array<std::string_view, 9> kFirst = {"evaluate/top1",
                                                      "evaluate/quadratic_kappa",
                                                      "evaluate/mean_per_class",
                                                      "evaluate/macro_f1",
                                                      "evaluate/mean_average_precision",
                                                      "evaluate/mae",
                                                      "evaluate/log_loss",
                                                      "validation/accuracy",
                                                      "validation/loss"};
  std::map<std::string, std::vector<double>> values;
  for (const FoldResult& one : folds)
    for (const auto& [name, value] : one.metrics) values[name].push_back(value);
  std::vector<FoldMean> all;
  for (const auto& [name, of_folds] : values) {
    FoldMean mean{.metric = name, .folds = of_folds.size(), .deviation = std::nullopt};
    const auto count = static_cast<double>(of_folds.size());
    for (const double value : of_folds) mean.mean += value / count;
    double squares = 0;
    for (const double value : of_folds) squares += (value - mean.mean) * (value - mean.mean);
    if (of_folds.size() > 1) mean.deviation = std::sqrt(squares / (count - 1));
    all.push_back(std::move(mean));
  }
  std::ranges::stable_sort(all, {}, [&](const FoldMean& mean) {
    return std::ranges::find(kFirst, mean.metric) - kFirst.begin();
  });
  return all;
}

std::vector<CrossValidation> read_cross_validations(const std::filesystem::path& sweep,
                                                    const std::vector<Trial>& trials,
                                                    Sources& sources) {
  const SweepLayout layout(sweep);
  std::vector<FoldedTrials> groups;
  for (const Trial& trial : trials) {
    const auto fold = fold_of_trial(layout, trial.number, sources);
    if (!fold) continue;
    auto group = std::ranges::find(groups, fold->others, &FoldedTrials::others);
    if (group == groups.end())
      group = groups.insert(groups.end(), {.others = fold->others, .count = fold->count});
    group->trials.emplace_back(fold->index, &trial);
  }
  const bool has_folds = std::ranges::any_of(groups, [](const FoldedTrials& group) {
    return std::ranges::any_of(
        group.trials, [&](const auto& one) { return one.first != group.trials.front().first; });
  });
  std::vector<CrossValidation> all;
  if (!has_folds) return all;
  for (const FoldedTrials& group : groups) {
    std::vector<std::string> nodes;
    std::vector<const Trial*> members;
    for (const auto& [fold, trial] : group.trials) {
      members.push_back(trial);
      for (std::string& node : evaluations_of_fold(layout.run(trial->number)))
        if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(std::move(node));
    }
    if (nodes.empty()) nodes.emplace_back();
    for (const std::string& node : nodes) {
      all.push_back(cross_validation(group, node, layout));
      all.back().settings = shared_settings(members, trials);
    }
  }
  return all;
}

}  // namespace runner
