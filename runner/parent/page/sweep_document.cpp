#include "runner/parent/page/sweep_document.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runner/parent/page/capitalized.h"
#include "runner/parent/page/mean_charts.h"
#include "runner/parent/page/parallel_coordinates.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kMostTrials = 1000;

/// Returns the results with the best trials first; those without a value come last. Trials of a
/// cross-validation stay in order.
SweepResults ranked(SweepResults results) {
  if (!results.objective || !results.cross_validations.empty()) return results;
  const auto value = [&](const TrialResult& one) {
    const auto found = one.metrics.find(results.objective->metric);
    if (found == one.metrics.end() || !std::isfinite(found->second)) return HUGE_VAL;
    return results.objective->is_smaller_better ? found->second : -found->second;
  };
  std::ranges::stable_sort(results.trials, {}, value);
  return results;
}

Table trial_table(const SweepResults& results, const TrialAddress& address) {
  Table table{results.cross_validations.empty() ? "Trials, best first" : "Trials",
              trial_rows(results, kMostTrials), false};
  for (std::size_t row = 1; address && row < table.rows.size(); ++row)
    if (std::string place = address(results.trials[row - 1].trial.number); !place.empty())
      table.links[{row, 0}] = std::move(place);
  return table;
}

void add_overview(Document& document, const std::filesystem::path& folder, const SweepPlan& plan,
                  const SweepResults& results) {
  document.section("Overview");
  Table table{"", {{"sweep", folder.string()}}, false};
  table.rows.push_back({"recipe", plan.recipe});
  table.rows.push_back({"overrides", join(plan.overrides, " ")});
  std::map<std::string_view, std::size_t> states;
  double seconds = 0;
  for (const Trial& trial : plan.trials) {
    ++states[name(trial.state)];
    seconds += trial.seconds;
  }
  std::string counts;
  for (const auto& [state, count] : states)
    counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(state);
  table.rows.push_back({"trials", counts});
  table.rows.push_back({"total time of all trials", duration_text(seconds)});
  // Trials with different folds are not comparable.
  if (const TrialResult* const best =
          results.cross_validations.empty() ? results.best() : nullptr) {
    const std::string& metric = results.objective->metric;
    table.rows.push_back({"best by " + metric, "trial " + std::to_string(best->trial.number) +
                                                   own_settings(plan.trials, best->trial.number) +
                                                   ": " + decimal(best->metrics.at(metric), 4)});
  }
  document.add(std::move(table));
  if (results.objective && results.objective->is_of_test && results.cross_validations.empty())
    document.say("The trials are compared on test data, so " + results.objective->metric +
                 " of the best trial is too optimistic.");
}

/// Adds a table of means, and a chart for each key.
void add_means(Document& document, const SweepResults& results, const std::string& heading,
               const std::string& title, const std::vector<TrialMean>& means) {
  if (means.empty()) return;
  document.section(heading);
  for (Drawing& drawing : draw_means(means, *results.objective))
    document.add(Figure{std::move(drawing)});
  document.add(Table{heading, mean_rows(title, results.objective->metric, means), false});
}

/// Returns the effects of all keys except the seed. Empty if only one other key varies: the means
/// over seeds are the same.
std::vector<TrialMean> effects_without_seeds(const SweepResults& results) {
  std::vector<TrialMean> effects = results.effects();
  std::erase_if(effects, [](const TrialMean& one) { return one.what.starts_with("seed="); });
  const bool has_seeds = std::ranges::find(results.keys, "seed") != results.keys.end();
  if (has_seeds && results.keys.size() <= 2) effects.clear();
  return effects;
}

}  // namespace

Document sweep_document(const std::filesystem::path& folder, const SweepPlan& plan,
                        const SweepResults& results, const TrialAddress& address) {
  Document document;
  document.title = "Sweep of " + plan.recipe;
  add_overview(document, folder, plan, results);
  document.section("Trials");
  if (results.cross_validations.empty()) {
    for (Drawing& drawing : draw_parallel_coordinates(results))
      document.add(Figure{std::move(drawing)});
  }
  document.add(trial_table(ranked(results), address));
  if (results.trials.size() > kMostTrials)
    document.say("The table shows " + std::to_string(kMostTrials) + " of " +
                 std::to_string(results.trials.size()) + " trials; results.csv has all of them.");
  for (const CrossValidation& one : results.cross_validations) {
    document.section("Cross-validation over " + std::to_string(one.count) + " folds" +
                     (one.node.empty() ? "" : ", " + one.node) +
                     (one.settings.empty() ? "" : ", " + one.settings));
    document.add(Table{"Folds", fold_rows(one), false});
    document.say(capitalized(fold_remarks(one)));
  }
  add_means(document, results, "Means over seeds", "settings", results.over_seeds());
  add_means(document, results, "Effect of each setting", "setting", effects_without_seeds(results));
  Table failed{"Trials that failed", {{"trial", "state", "reason"}}, false};
  for (const Trial& trial : plan.trials) {
    if (!trial.reason.empty())
      failed.rows.push_back(
          {std::to_string(trial.number), std::string(name(trial.state)), trial.reason});
  }
  if (failed.rows.size() > 1) {
    document.section("Failures");
    document.add(std::move(failed));
  }
  return document;
}

}  // namespace runner
