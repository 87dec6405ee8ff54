#include "runner/parent/sweep/sweep_tensorboard.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "runner/parent/record/event_file.h"
#include "runner/parent/record/run_metrics.h"
#include "runner/parent/record/tensorboard_log.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the values of each key that the trials set, in order of first appearance.
std::vector<std::pair<std::string, std::vector<std::string>>> varied_options(
    const SweepResults& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> options;
  for (const std::string& key : results.keys) {
    std::vector<std::string> values;
    for (const TrialResult& one : results.trials) {
      const auto set = one.settings.find(key);
      if (set != one.settings.end() && !std::ranges::count(values, set->second))
        values.push_back(set->second);
    }
    options.emplace_back(key, std::move(values));
  }
  return options;
}

std::string add_experiment(const HparamsExperiment& experiment, const fs::path& folder) {
  const double time = seconds_since_1970();
  EventFile file(folder, time, disk());
  file.add(experiment_value(experiment, time), 0, time);
  return file.path().filename().string();
}

}  // namespace

Hparams hparams_of_trial(const fs::path& run) {
  const auto sweep = sweep_of(run);
  const auto plan = sweep ? SweepJournal::read(*sweep) : Result<SweepPlan>(SweepPlan());
  if (!plan) return {};
  const fs::path folder = fs::absolute(run).lexically_normal();
  for (const Trial& trial : plan->trials)
    if (sweep && SweepLayout(*sweep).run(trial.number) == folder) return settings_of(trial);
  return {};
}

HparamsExperiment experiment_of(const fs::path& sweep, const SweepPlan& plan,
                                const SweepResults& results) {
  const std::string objective = results.objective ? results.objective->metric : "";
  std::set<std::pair<std::string, std::string>> chosen, evaluated;
  for (const Trial& trial : plan.trials) {
    for (const auto& [node, metrics] : metrics_of_run(SweepLayout(sweep).run(trial.number)).nodes) {
      for (const auto& [name, value] : metrics) {
        if (name == objective || node + ":" + name == objective) chosen.emplace(node, name);
        else if (name.starts_with("evaluate/")) evaluated.emplace(node, name);
      }
    }
  }
  HparamsExperiment experiment{.name = plan.recipe, .options = varied_options(results)};
  experiment.metrics.assign(chosen.begin(), chosen.end());
  experiment.metrics.insert(experiment.metrics.end(), evaluated.begin(), evaluated.end());
  return experiment;
}

void write_experiment(const fs::path& sweep, const SweepPlan& plan, const SweepResults& results) {
  const bool is_shown = std::ranges::any_of(plan.trials, [&](const Trial& trial) {
    std::error_code error;
    return fs::is_directory(RunLayout(SweepLayout(sweep).run(trial.number)).tensorboard(), error);
  });
  if (!is_shown) return;
  const fs::path folder = SweepLayout(sweep).tensorboard();
  try {
    make_folders(folder);
    remove_event_files(folder);
    add_experiment(experiment_of(sweep, plan, results), folder);
  } catch (const fs::filesystem_error& error) {
    throw WriteError(write_diagnostic(folder, error.code().value(), ErrorCode::kCannotCreate));
  }
}

std::vector<std::string> write_sweep_tensorboard(const fs::path& sweep, const SweepPlan& plan,
                                                 const fs::path& folder) {
  std::vector<std::string> files;
  for (const Trial& trial : plan.trials) {
    const fs::path run = SweepLayout(sweep).run(trial.number);
    const std::string name = run.filename().string();
    make_folders(folder / name);
    for (const std::string& file : write_tensorboard(run, folder / name, settings_of(trial)))
      files.push_back(name + "/" + file);
    if (fs::is_empty(folder / name)) fs::remove(folder / name);
  }
  if (files.empty()) return files;
  files.push_back(add_experiment(experiment_of(sweep, plan, read_results(sweep, plan)), folder));
  return files;
}

}  // namespace runner
