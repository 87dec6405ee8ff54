#include "runner/parent/sweep/sweep_results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/parent/record/run_metrics.h"
#include "runner/parent/report/main_metric.h"
#include "runner/parent/report/recorded_plan.h"
#include "runner/parent/report/table_text.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

bool is_of_evaluation(const std::string& metric) { return metric.find("evaluate/") != metric.npos; }

/// Returns the metric that most trials monitor, the first if several are equally common; empty if
/// no trial has measured the metric that it monitors.
std::string monitored_by_most(const std::vector<std::string>& monitors) {
  std::string most;
  for (const std::string& one : monitors)
    if (!one.empty() &&
        (most.empty() || std::ranges::count(monitors, one) > std::ranges::count(monitors, most)))
      most = one;
  return most;
}

Objective chosen_objective(const std::vector<std::string>& metrics,
                           const std::vector<std::string>& monitors, const std::string& wanted) {
  Objective objective{.metric = wanted};
  if (wanted == "auto") {
    const std::string monitored = monitored_by_most(monitors);
    objective.metric = monitored.empty() ? choosing_metric(metrics) : monitored;
    objective.is_for_want = is_of_test(objective.metric);
  }
  objective.is_smaller_better = is_smaller_better(objective.metric);
  objective.is_of_test = is_of_test(objective.metric);
  return objective;
}

/// Returns the factor by which to multiply the standard error for a 95% interval: Student's t for
/// that many degrees of freedom.
double student_t(std::size_t freedom) {
  constexpr std::array<double, 30> kTable = {
      12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
      2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
      2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (freedom <= kTable.size()) return kTable[freedom - 1];
  // Cornish-Fisher expansion around the normal quantile 1.95996; accurate to 1e-3 for this many
  // degrees of freedom and more.
  constexpr double z = 1.959964;
  const auto n = static_cast<double>(freedom);
  return z + (z * z * z + z) / (4 * n);
}

TrialMean mean_of(std::string what, const std::vector<double>& values) {
  TrialMean result{.what = std::move(what), .trials = values.size(), .half_interval = std::nullopt};
  for (const double value : values) result.mean += value / static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  result.half_interval =
      student_t(values.size() - 1) * deviation / std::sqrt(static_cast<double>(values.size()));
  return result;
}

/// Returns the mean of the objective over finished trials for each group with the same `label`, in
/// order of first appearance.
std::vector<TrialMean> means_by(const SweepResults& results, const auto& label) {
  std::vector<std::pair<std::string, std::vector<double>>> groups;
  for (const TrialResult& one : results.trials) {
    const auto value = one.metrics.find(results.objective->metric);
    if (one.trial.state != TrialState::kFinished || value == one.metrics.end()) continue;
    const std::string text = label(one);
    auto group =
        std::ranges::find(groups, text, &std::pair<std::string, std::vector<double>>::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
    group->second.push_back(value->second);
  }
  std::vector<TrialMean> means;
  for (auto& [text, values] : groups) means.push_back(mean_of(text, values));
  return means;
}

}  // namespace

std::string best_word(const Objective& objective) {
  return objective.is_smaller_better ? "smallest" : "largest";
}

const TrialResult* SweepResults::best() const {
  const TrialResult* best = nullptr;
  if (!objective) return best;
  for (const TrialResult& one : trials) {
    const auto value = one.metrics.find(objective->metric);
    if (one.trial.state != TrialState::kFinished || value == one.metrics.end() ||
        std::isnan(value->second))
      continue;
    const double old = best ? best->metrics.at(objective->metric) : 0;
    if (!best || (objective->is_smaller_better ? value->second < old : value->second > old))
      best = &one;
  }
  return best;
}

std::vector<TrialMean> SweepResults::effects() const {
  std::vector<TrialMean> all;
  if (!objective || keys.size() < 2) return all;
  for (const std::string& key : keys) {
    const auto means = means_by(*this, [&](const TrialResult& one) {
      const auto set = one.settings.find(key);
      return key + "=" + (set == one.settings.end() ? "" : set->second);
    });
    if (means.size() > 1) all.insert(all.end(), means.begin(), means.end());
  }
  return all;
}

std::vector<TrialMean> SweepResults::over_seeds() const {
  if (!objective || std::ranges::find(keys, "seed") == keys.end()) return {};
  return means_by(*this, [&](const TrialResult& one) {
    std::string text;
    for (const std::string& key : keys) {
      const auto set = one.settings.find(key);
      if (key == "seed" || set == one.settings.end()) continue;
      text += (text.empty() ? "" : " ") + key + "=" + set->second;
    }
    return text;
  });
}

SweepResults read_results(const std::filesystem::path& sweep, const SweepPlan& plan,
                          const std::string& wanted, Sources* sources) {
  const std::vector<Trial>& trials = plan.trials;
  const SweepLayout layout(sweep);
  SweepResults results;
  std::map<std::string, std::set<std::string>> values;
  std::vector<std::string> keys;
  std::set<std::string> measured;
  std::vector<std::string> monitors;  // the monitored metric of each trial that has measured it
  for (const Trial& trial : trials) {
    TrialResult one{.trial = trial, .settings = {}, .metrics = {}};
    one.planned_bytes = planned_bytes_of(layout.run(trial.number));
    if (trial.state != TrialState::kStopped) {
      const RunMetrics metrics = metrics_of_run(layout.run(trial.number));
      one.metrics = metrics.values();
      if (one.metrics.contains(metrics.monitor)) monitors.push_back(metrics.monitor);
    } else if (plan.asha && !trial.rungs.empty()) {
      one.metrics = {{plan.asha->metric, trial.rungs.back()}};
    }
    for (const std::string& setting : trial.settings) {
      auto [key, value] = key_and_value(setting);
      if (values[key].empty()) keys.push_back(key);
      values[key].insert(value);
      one.settings[key] = value;
    }
    for (const auto& [name, value] : one.metrics) measured.insert(name);
    results.trials.push_back(std::move(one));
  }
  for (const std::string& key : keys)
    if (values[key].size() > 1 || trials.size() == 1) results.keys.push_back(key);
  std::erase_if(measured, [](const std::string& metric) {
    return metric.find("memory/live/") != metric.npos;
  });
  results.metrics.assign(measured.begin(), measured.end());
  std::stable_partition(results.metrics.begin(), results.metrics.end(), is_of_evaluation);
  if (!results.metrics.empty() || wanted != "auto") {
    results.objective = chosen_objective(results.metrics, monitors, wanted);
  }
  if (sources) results.cross_validations = read_cross_validations(sweep, trials, *sources);
  return results;
}

nlohmann::ordered_json to_json(const SweepResults& results) {
  const auto means = [](const std::vector<TrialMean>& all) {
    Json list = Json::array();
    for (const TrialMean& one : all) {
      list.push_back(
          {{"settings", one.what},
           {"trials", one.trials},
           {"mean", number_json(one.mean)},
           {"half_interval", one.half_interval ? number_json(*one.half_interval) : Json(nullptr)}});
    }
    return list;
  };
  Json trials = Json::array();
  for (const TrialResult& one : results.trials) {
    Json metrics = Json::object();
    for (const auto& [name, value] : one.metrics) metrics[name] = number_json(value);
    Json object = {{"number", one.trial.number},     {"hash", one.trial.hash},
                   {"state", name(one.trial.state)}, {"overrides", one.trial.settings},
                   {"attempts", one.trial.attempts}, {"seconds", one.trial.seconds},
                   {"metrics", std::move(metrics)}};
    if (one.planned_bytes) object["planned_bytes"] = *one.planned_bytes;
    if (!one.trial.reason.empty()) object["reason"] = one.trial.reason;
    trials.push_back(std::move(object));
  }
  const TrialResult* const best = results.best();
  Json json = {{"trials", std::move(trials)},
               {"objective", nullptr},
               {"best", best ? Json(best->trial.number) : Json(nullptr)},
               {"effects", means(results.effects())},
               {"over_seeds", means(results.over_seeds())},
               {"cross_validations", to_json(results.cross_validations)}};
  if (results.objective)
    json["objective"] = {{"metric", results.objective->metric},
                         {"best", best_word(*results.objective)},
                         {"of_test_data", results.objective->is_of_test}};
  return json;
}

namespace {

constexpr std::size_t kShownMetrics = 4, kShownTrials = 200;

/// Returns `value` with four significant digits.
std::string four_digits(double value) {
  if (!std::isfinite(value)) return decimal(value, 0);
  const double size = std::abs(value);
  return size != 0 && (size < 1e-3 || size >= 1e6) ? csv_number(value)
                                                   : decimal(value, size < 10 ? 4 : 2);
}

/// Returns the objective, then the most important metrics, with evaluation metrics before
/// validation metrics.
std::vector<std::string> shown_metrics(const SweepResults& results) {
  std::vector<std::string> shown;
  if (results.objective) shown.push_back(results.objective->metric);
  constexpr std::array<std::string_view, 11> kWanted = {
      "evaluate/top1",           "evaluate/episode_accuracy", "evaluate/mean_average_precision",
      "evaluate/mean_per_class", "evaluate/quadratic_kappa",  "evaluate/macro_f1",
      "evaluate/log_loss",       "validation/accuracy",       "validation/mean_average_precision",
      "validation/loss",         "train/epoch_loss"};
  for (const std::string_view wanted : kWanted)
    for (const std::string& metric : results.metrics)
      if (shown.size() < kShownMetrics && metric.ends_with(wanted) &&
          std::ranges::find(shown, metric) == shown.end())
        shown.push_back(metric);
  return shown;
}

std::string metric_text(const std::map<std::string, double>& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? "–" : four_digits(found->second);
}

/// A column of the table that is shown only if it differs between trials.
struct SizeColumn {
  const char* title;
  std::function<std::string(const TrialResult&)> text;
};

/// Returns columns for the sizes of the trials' networks that differ between trials.
std::vector<SizeColumn> size_columns(const SweepResults& results) {
  const auto trained = [](const TrialResult& one) -> std::string {
    for (const auto& [name, value] : one.metrics)
      if (name.ends_with("train/trained_parameters")) return decimal(value, 0);
    return "–";
  };
  const auto planned = [](const TrialResult& one) {
    return one.planned_bytes ? bytes_text(*one.planned_bytes) : "–";
  };
  std::vector<SizeColumn> columns = {{"trained parameters", trained}, {"planned", planned}};
  std::erase_if(columns, [&](const SizeColumn& column) {
    std::set<std::string> texts;
    for (const TrialResult& one : results.trials)
      if (one.trial.state == TrialState::kFinished) texts.insert(column.text(one));
    return texts.size() < 2;
  });
  return columns;
}

}  // namespace

TableRows mean_rows(const std::string& title, const std::string& metric,
                    const std::vector<TrialMean>& means) {
  TableRows rows = {{title, "trials", "mean " + metric, "95%"}};
  for (const TrialMean& one : means) {
    rows.push_back({one.what.empty() ? "all" : one.what, std::to_string(one.trials),
                    four_digits(one.mean),
                    one.half_interval ? "± " + four_digits(*one.half_interval) : "–"});
  }
  return rows;
}

TableRows trial_rows(const SweepResults& results, std::size_t most) {
  const std::vector<std::string> metrics = shown_metrics(results);
  TableRows rows = {{"trial", "state"}};
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  rows[0].insert(rows[0].end(), results.keys.begin(), results.keys.end());
  const std::vector<SizeColumn> sizes = size_columns(results);
  for (const SizeColumn& column : sizes) rows[0].emplace_back(column.title);
  rows[0].emplace_back("time");
  for (const TrialResult& one : results.trials) {
    if (rows.size() > most) break;
    std::vector<std::string> row = {std::to_string(one.trial.number),
                                    std::string(name(one.trial.state))};
    for (const std::string& metric : metrics) row.push_back(metric_text(one.metrics, metric));
    for (const std::string& key : results.keys) {
      const auto set = one.settings.find(key);
      row.push_back(set == one.settings.end() ? "–" : set->second);
    }
    for (const SizeColumn& column : sizes) row.push_back(column.text(one));
    row.push_back(one.trial.seconds > 0 ? duration_text(one.trial.seconds) : "–");
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string results_text(const SweepResults& results, const TextStyle& style) {
  std::string text = table_text(trial_rows(results, kShownTrials), style.table_width());
  if (results.trials.size() > kShownTrials)
    text +=
        "and " + std::to_string(results.trials.size() - kShownTrials) + " more, in results.csv\n";
  if (const TrialResult* const best =
          results.cross_validations.empty() ? results.best() : nullptr) {
    text += "\nbest: trial " + std::to_string(best->trial.number) + ", " +
            results.objective->metric + " " +
            four_digits(best->metrics.at(results.objective->metric)) + "\n";
    if (results.objective->is_of_test)
      text += std::string(results.objective->is_for_want
                              ? "no trial has been validated, so the choice is based on test data: "
                              : "chosen based on test data: ") +
              results.objective->metric + " is no longer a fair estimate for the best trial\n";
  }
  text += cross_validation_text(results.cross_validations, style);
  if (!results.objective) return text;
  const auto means = [&](const std::string& title, const std::vector<TrialMean>& all) {
    return all.empty() ? ""
                       : "\n" + table_text(mean_rows(title, results.objective->metric, all),
                                           style.table_width());
  };
  return text + means("over seeds", results.over_seeds()) + means("effect", results.effects());
}

std::string results_csv(const SweepResults& results) {
  std::vector<std::string> head = {"trial", "state", "attempts", "seconds"};
  head.insert(head.end(), results.keys.begin(), results.keys.end());
  head.insert(head.end(), results.metrics.begin(), results.metrics.end());
  std::string text = csv_line(head);
  for (const TrialResult& one : results.trials) {
    std::vector<std::string> row = {
        std::to_string(one.trial.number), std::string(name(one.trial.state)),
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
  write_atomically(layout.results_json(),
                   json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (const std::string predictions = out_of_fold_csv(results.cross_validations);
      !predictions.empty())
    write_atomically(layout.out_of_fold_csv(), predictions);
  return json;
}

}  // namespace runner
