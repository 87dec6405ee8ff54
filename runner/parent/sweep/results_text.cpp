#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/parent/report/table.h"
#include "runner/parent/sweep/sweep_layout.h"
#include "runner/parent/sweep/sweep_results.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/decimal.h"
#include "runner/shared/text/duration.h"

namespace runner {
namespace {

constexpr std::size_t kShownMetrics = 4, kShownTrials = 200;

/// Four digits that count.
std::string four_digits(double value) {
  if (!std::isfinite(value)) return decimal(value, 0);
  const double size = std::abs(value);
  return size != 0 && (size < 1e-3 || size >= 1e6) ? csv_number(value) : decimal(value, size < 10 ? 4 : 2);
}

/// The objective, then what people look at first, of an evaluation before a validation.
std::vector<std::string> shown_metrics(const SweepResults& results) {
  std::vector<std::string> shown;
  if (results.objective) shown.push_back(results.objective->metric);
  constexpr std::array<std::string_view, 9> kWanted = {
      "evaluate/top1",     "evaluate/episode_accuracy", "evaluate/mean_per_class", "evaluate/quadratic_kappa",
      "evaluate/macro_f1", "evaluate/log_loss",         "validation/accuracy",     "validation/loss",
      "train/epoch_loss"};
  for (const std::string_view wanted : kWanted)
    for (const std::string& metric : results.metrics)
      if (shown.size() < kShownMetrics && metric.ends_with(wanted) && std::ranges::find(shown, metric) == shown.end())
        shown.push_back(metric);
  return shown;
}

std::string metric_text(const std::map<std::string, double>& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? "–" : four_digits(found->second);
}

std::string means_table(const std::string& title, const std::string& metric, const std::vector<TrialMean>& means) {
  if (means.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{title, "trials", "mean " + metric, "95 %"}};
  for (const TrialMean& one : means) {
    rows.push_back({one.what.empty() ? "all" : one.what, std::to_string(one.trials), four_digits(one.mean),
                    one.half_interval ? "+- " + four_digits(*one.half_interval) : "–"});
  }
  return "\n" + table_text(rows);
}

}  // namespace

std::string results_text(const SweepResults& results) {
  const std::vector<std::string> metrics = shown_metrics(results);
  std::vector<std::vector<std::string>> rows = {{"trial", "state"}};
  rows[0].insert(rows[0].end(), results.keys.begin(), results.keys.end());
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  rows[0].emplace_back("time");
  for (const TrialResult& one : results.trials) {
    if (rows.size() > kShownTrials) break;
    std::vector<std::string> row = {std::to_string(one.trial.number), std::string(name(one.trial.state))};
    for (const std::string& key : results.keys) {
      const auto set = one.settings.find(key);
      row.push_back(set == one.settings.end() ? "–" : set->second);
    }
    for (const std::string& metric : metrics) row.push_back(metric_text(one.metrics, metric));
    row.push_back(one.trial.seconds > 0 ? duration_text(one.trial.seconds) : "–");
    rows.push_back(std::move(row));
  }
  std::string text = table_text(rows);
  if (results.trials.size() > kShownTrials)
    text += "and " + std::to_string(results.trials.size() - kShownTrials) + " more, in results.csv\n";
  if (const TrialResult* const best = results.best()) {
    text += "\nbest: trial " + std::to_string(best->trial.number) + ", " + results.objective->metric + " " +
            four_digits(best->metrics.at(results.objective->metric)) + "\n";
    if (results.objective->is_of_test)
      text += std::string(results.objective->is_for_want ? "no trial has been validated, so that test data choose: "
                                                         : "chosen by test data: ") +
              results.objective->metric + " is no fair estimate any more of what the best is worth\n";
  }
  if (!results.objective) return text;
  text += means_table("over seeds", results.objective->metric, results.over_seeds());
  return text + means_table("effect", results.objective->metric, results.effects());
}

std::string results_csv(const SweepResults& results) {
  std::vector<std::string> head = {"trial", "state", "attempts", "seconds"};
  head.insert(head.end(), results.keys.begin(), results.keys.end());
  head.insert(head.end(), results.metrics.begin(), results.metrics.end());
  std::string text = csv_line(head);
  for (const TrialResult& one : results.trials) {
    std::vector<std::string> row = {std::to_string(one.trial.number), std::string(name(one.trial.state)),
                                    std::to_string(one.trial.attempts), csv_number(one.trial.seconds)};
    for (const std::string& key : results.keys) {
      const auto set = one.settings.find(key);
      row.push_back(set == one.settings.end() ? "" : set->second);
    }
    for (const std::string& metric : results.metrics) {
      const auto found = one.metrics.find(metric);
      row.push_back(found == one.metrics.end() ? "" : csv_number(found->second));
    }
    text += csv_line(row);
  }
  return text;
}

nlohmann::ordered_json write_results(const SweepJournal& journal, const SweepResults& results) {
  const SweepLayout layout(journal.folder());
  nlohmann::ordered_json json = to_json(results);
  json["folder"] = journal.folder().string();
  write_atomically(layout.results_csv(), results_csv(results));
  write_atomically(layout.results_json(), json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return json;
}

}  // namespace runner
