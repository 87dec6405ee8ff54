#include "runner/parent/cli/mlflow_export.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/run/mlflow_request.h"
#include "runner/parent/run/tracking.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr MlflowPatience kOfExport{.tries = 4, .limit_seconds = 0};

Json object_in_file(const fs::path& path) {
  std::ifstream file = open_regular(path);
  Json json = parse_json(file);
  return json.is_object() ? json : Json::object();
}

/// Returns MLflow's name for the status of a run.
std::string mlflow_status(const std::string& status) {
  if (status == "finished") return "FINISHED";
  return status == "failed" || status == "worker died" ? "FAILED" : "KILLED";
}

Result<MlflowSubject> recorded_subject(const RecordedRun& run, Sources& sources) {
  std::ifstream file = open_regular(run.recipe);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto recipe = read_yaml(sources.add(run.recipe.string(), text));
  if (!recipe) return recipe.errors();
  MlflowSubject subject{.folder = run.folder,
                        .recipe = to_json(*recipe),
                        .nodes = {},
                        .began = started_at(run.folder)};
  const Json graph = object_in_file(run.recipe.parent_path() / RunRecord::kGraph);
  for (const Json& node : graph.value("nodes", Json::array())) {
    const Json none, id = node.is_object() ? node.value("id", none) : none,
                     kind = node.is_object() ? node.value("kind", none) : none;
    if (id.is_string() && kind.is_string()) subject.nodes.emplace_back(id, kind);
  }
  return subject;
}

/// Sends `request`, then `end`; returns the answer.
Result<Json> send_recorded(const MlflowTarget& target, const Json& request, const Json& end) {
  std::optional<Diagnostic> failure;
  Tracking tracking([&](const Diagnostic& warning) { failure = warning; });
  {
    const SignalSource ignores_broken_pipes;
    tracking.begin(target, request);
  }
  const auto done = tracking.end(end, std::chrono::seconds(0));
  if (done) return *done;
  Diagnostic error = failure.value_or(
      Diagnostic{ErrorCode::kNotTracked, {}, "", "retort-tracker did not respond", ""});
  error.pointer = "";
  error.severity = Severity::kError;
  error.help = "check the server and run the same command again: it sends only what is missing";
  return error;
}

Result<Json> export_run(const fs::path& folder, const MlflowTarget& target, Sources& sources) {
  const auto run = read_run(folder);
  if (!run) return run.errors();
  const auto lock = RunLock::take(run->folder);
  if (!lock) return lock.errors();
  const auto subject = recorded_subject(*run, sources);
  if (!subject) return subject.errors();
  const double seconds =
      number_from_json(object_in_file(RunLayout(run->folder).summary()).value("seconds", Json()))
          .value_or(0);
  auto done = send_recorded(target, mlflow_request(target, *subject, kOfExport),
                            mlflow_end(mlflow_status(run->status), subject->began + seconds));
  if (!done) return done;
  Json result = {{"folder", run->folder.string()}};
  result.update(*done);
  return result;
}

/// Returns the runs of the trials that a sweep has started.
std::vector<fs::path> runs_of_trials(const SweepPlan& plan, const fs::path& folder) {
  std::vector<fs::path> runs;
  for (const Trial& trial : plan.trials) {
    const fs::path run = SweepLayout(folder).run(trial.number);
    std::error_code error;
    if (fs::exists(RunLayout(run).mark(), error)) runs.push_back(run);
  }
  return runs;
}

std::string sweep_status(const SweepPlan& plan) {
  const auto any = [&](TrialState state) {
    return std::ranges::count(plan.trials, state, &Trial::state) > 0;
  };
  if (any(TrialState::kFailed)) return "FAILED";
  return any(TrialState::kInterrupted) || any(TrialState::kWaiting) ? "KILLED" : "FINISHED";
}

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Environment environment_with(const std::string& address) {
  return [address](const std::string& name) {
    return name == "MLFLOW_TRACKING_URI" ? address : process_environment(name);
  };
}

}  // namespace

ExitCode export_to_mlflow(const fs::path& folder, const std::string& address, Console& console) {
  if (auto errors = refused_mlflow_address(address, "--mlflow"); !errors.empty()) {
    for (Diagnostic& error : errors) error.pointer = "";
    return report(console, errors);
  }
  const auto target = mlflow_target(environment_with(address), own_executable());
  if (!target) return report(console, target.errors());
  const auto plan = SweepJournal::read(folder);
  Json runs = Json::array();
  for (const fs::path& run : plan ? runs_of_trials(*plan, folder) : std::vector{folder}) {
    const auto sent = export_run(run, *target, console.sources);
    if (!sent) return report(console, sent.errors());
    runs.push_back(*sent);
  }
  if (plan) {
    const auto sent = send_recorded(
        *target, mlflow_sweep_request(*target, folder, plan->recipe, now_in_seconds(), kOfExport),
        mlflow_end(sweep_status(*plan), now_in_seconds()));
    if (!sent) return report(console, sent.errors());
  }
  if (console.json) {
    print_result(console, "export_mlflow/1", {{"server", target->server}, {"runs", runs}});
  } else if (!console.is_quiet()) {
    for (const Json& run : runs)
      console.out << printable(target->server + "/#/experiments/" + run.value("experiment_id", "") +
                               "/runs/" + run.value("run_id", ""))
                  << '\n';
  }
  return ExitCode::kDone;
}

Diagnostics refused_tracking(const std::vector<const Value*>& recipes) {
  const bool is_tracked = std::ranges::any_of(recipes, [](const Value* recipe) {
    const Value* const request = at_key(*recipe, "run.mlflow");
    const auto* const flag = request ? std::get_if<bool>(&request->data) : nullptr;
    return flag && *flag;
  });
  if (!is_tracked) return {};
  const auto target = mlflow_target(process_environment, own_executable());
  return target ? Diagnostics{} : target.errors();
}

void track_end_of_sweep(const fs::path& folder, ExitCode code, Console& console) {
  std::error_code error;
  if (!fs::exists(mlflow_of_sweep(folder), error)) return;
  const auto target = mlflow_target(process_environment, own_executable());
  if (!target) return;  // the trials were refused, too
  Tracking tracking([&](const Diagnostic& warning) { warn(console, {warning}); });
  const auto plan = SweepJournal::read(folder);
  {
    const SignalSource ignores_broken_pipes;
    tracking.begin(
        *target, mlflow_sweep_request(*target, folder, plan ? plan->recipe : "", now_in_seconds()));
  }
  const std::string status = code == ExitCode::kDone ? "FINISHED"
                             : says_stopped(code)    ? "KILLED"
                                                     : "FAILED";
  tracking.end(mlflow_end(status, now_in_seconds()),
               std::chrono::seconds(MlflowPatience().limit_seconds));
}

}  // namespace runner
