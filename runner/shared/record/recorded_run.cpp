#include "runner/shared/record/recorded_run.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using WeightsChoice = CheckpointSource::Choice;

constexpr std::size_t kLargestRecord = 64 << 20;

/// Reads a JSON object; returns an empty object if the file is missing or cannot be read.
json read_object(const fs::path& path) {
  const auto text = real_file_system().read(path, kLargestRecord);
  json object = text ? parse_json<json>(*text) : json();
  return object.is_object() ? object : json::object();
}

/// Returns the folders with a complete record, latest first. If a run was killed, its last record
/// may be incomplete.
std::vector<fs::path> whole_records(const RunLayout& run) {
  std::vector<fs::path> records;
  const auto add = [&](const fs::path& path) {
    // environment.json is written last.
    if (real_file_system().is_file(path / RunRecord::kEnvironment))
      records.insert(records.begin(), path);
  };
  add(run.records());
  for (int number = 1;; ++number) {
    const fs::path next = run.resume(number);
    if (!real_file_system().is_folder(next)) return records;
    add(next);
  }
}

/// Returns the newest run below outputs/, for advice; empty if there is none.
std::string newest_run() {
  const FileSystem& files = real_file_system();
  const fs::path outputs = default_runs_folder("");
  std::vector<std::string> days = files.list(outputs);
  for (auto day = days.rbegin(); day != days.rend(); ++day) {
    std::vector<std::string> times = files.list(outputs / *day);
    for (auto time = times.rbegin(); time != times.rend(); ++time) {
      const fs::path run = outputs / *day / *time;
      if (files.is_file(RunLayout(run).mark())) return run.string();
    }
  }
  return "";
}

Diagnostic sweep_for_run(const fs::path& folder) {
  return {ErrorCode::kNoRun,
          {},
          "",
          "'" + folder.string() + "' is the folder of a sweep, not of a run",
          "give the folder of a trial, such as '" + (folder / "0").string() +
              "'; `retort report` and `retort runs ls` show the sweep"};
}

Diagnostic no_run(const std::string& what) {
  const std::string newest = newest_run();
  return {ErrorCode::kNoRun,
          {},
          "",
          what,
          newest.empty() ? "give a folder created by `retort run`"
                         : "the newest run here is '" + newest + "'"};
}

fs::path whole(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

std::string ids_of(const CheckpointSources& trained) {
  std::string text;
  for (const auto& [id, weights] : trained) text += (text.empty() ? "'" : ", '") + id + "'";
  return text;
}

Diagnostic nothing_saved(const RecordedRun& run, const std::string& id) {
  const std::string folder = run.folder.string();
  return {ErrorCode::kNoCheckpoint,
          {},
          "",
          "there is no checkpoint of '" + id + "' in the run '" + folder + "'",
          "train it first with `retort resume " + folder + "`"};
}

Diagnostic no_such_checkpoint(const std::string& which, const fs::path& saved) {
  const std::vector<CheckpointName> names = list_checkpoints(saved);
  return {ErrorCode::kNoCheckpoint,
          {},
          "",
          "there is no checkpoint in '" + which + "'",
          names.empty() ? "use best, latest, or a checkpoint's folder"
                        : "use best, latest, or a checkpoint's folder, such as " +
                              (saved / to_text(names.front())).string()};
}

}  // namespace

std::vector<fs::path> runs_in(const fs::path& folder) {
  constexpr int kDepth = 3;  // multirun/<date>/<time>/<number>
  std::vector<fs::path> runs, level = {folder};
  for (int depth = 0; depth <= kDepth; ++depth) {
    std::vector<fs::path> below;
    for (const fs::path& path : level) {
      if (real_file_system().is_file(RunLayout(path).mark())) {
        runs.push_back(path.lexically_normal());
        continue;
      }
      std::error_code error;
      for (fs::directory_iterator entry(path, error), end; !error && entry != end;
           entry.increment(error)) {
        if (entry->is_directory(error) && !entry->is_symlink(error)) below.push_back(entry->path());
      }
    }
    level = std::move(below);
  }
  std::ranges::sort(runs);
  return runs;
}

std::map<std::string, std::string> node_titles(const fs::path& folder) {
  std::map<std::string, std::string> titles;
  for (const json& node :
       read_object(RunLayout(folder).records() / RunRecord::kGraph).value("nodes", json::array())) {
    if (!node.is_object()) continue;
    const json id = node.value("id", json()), title = node.value("title", json());
    if (id.is_string() && title.is_string()) titles[id] = title;
  }
  return titles;
}

std::optional<fs::path> working_folder_of(const fs::path& recipe) {
  if (recipe.filename() != RunRecord::kRecipe || !run_of(recipe)) return std::nullopt;
  const json folder =
      read_object(recipe.parent_path() / RunRecord::kEnvironment).value("working_folder", json());
  if (!folder.is_string() || !real_file_system().is_folder(folder.get<std::string>()))
    return std::nullopt;
  return fs::path(folder.get<std::string>());
}

std::optional<fs::path> code_folder_of(const fs::path& recipe) {
  if (recipe.filename() != RunRecord::kRecipe || !run_of(recipe)) return std::nullopt;
  const json python =
      read_object(recipe.parent_path() / RunRecord::kEnvironment).value("python", json());
  const json folders = python.is_object() ? python.value("folders", json()) : json();
  if (!folders.is_array() || folders.empty() || !folders.back().is_string()) return std::nullopt;
  return fs::path(folders.back().get<std::string>());
}

Result<RecordedRun> read_run(const fs::path& folder) {
  const FileSystem& files = real_file_system();
  if (!files.is_folder(folder)) return no_run("there is no folder '" + folder.string() + "'");
  const RunLayout layout(folder);
  if (read_object(layout.mark()).value("schema", json()) != 1) {
    if (files.is_file(folder / std::string(kSweepJournal))) return sweep_for_run(folder);
    return no_run("'" + folder.string() + "' is not the folder of a run");
  }
  const std::vector<fs::path> records = whole_records(layout);
  if (records.empty()) {
    return Diagnostic{ErrorCode::kNoRun,
                      {},
                      "",
                      "the run in '" + folder.string() +
                          "' was killed before it started: its record is incomplete",
                      "nothing is lost: remove the folder and run it again"};
  }
  RecordedRun run{.folder = folder,
                  .recipe = records.front() / RunRecord::kRecipe,
                  .device = {},
                  .threads = 0,
                  .status = {}};
  const json environment = read_object(records.front() / RunRecord::kEnvironment);
  const json summary = read_object(layout.summary());
  const json device = environment.value("device", json()),
             threads = environment.value("threads", json());
  if (!device.is_string() || !threads.is_number_integer() || !files.is_file(run.recipe)) {
    return Diagnostic{ErrorCode::kNoRun,
                      {},
                      "",
                      "the record in '" + records.front().string() + "' cannot be read",
                      "the record was changed after the run; run its recipe again"};
  }
  run.device = device;
  run.threads = threads;
  const json choice = environment.value("device_choice", json());
  if (choice.is_object() && choice.value("is_only_visible", json()) == true &&
      choice.value("uuid", json()).is_string())
    run.device_uuid = choice["uuid"];
  const json source = read_object(layout.source()).value("run", json());
  if (source.is_string()) run.source = source;
  if (summary.contains("status") && summary["status"].is_string()) run.status = summary["status"];
  run.smoke = summary.value("smoke", json()) == true;
  for (const json& node : summary.value("nodes", json::array())) {
    if (node.is_object() && node.value("status", json()) == "finished" &&
        node.value("id", json()).is_string())
      run.finished.push_back(node["id"]);
  }
  return run;
}

bool keep_machine(Graph& graph, const Graph& before, const RecordedRun& run) {
  if (graph.threads == before.threads) graph.threads = run.threads;
  return graph.device == before.device;
}

Result<CheckpointSources> find_checkpoint_sources(const RecordedRun& run, const Graph& graph,
                                                  const std::string& which) {
  if (!run.source.empty()) {
    return Diagnostic{
        ErrorCode::kNoCheckpoint,
        {},
        "",
        "'" + run.folder.string() + "' is an evaluation and has no weights of its own",
        "give the run that it evaluated: " + run.source};
  }
  const bool is_folder = !which.empty() && which != "best" && which != "latest";
  const WeightsChoice choice = which == "best"     ? WeightsChoice::kBest
                               : which == "latest" ? WeightsChoice::kLatest
                                                   : WeightsChoice::kKept;
  CheckpointSources trained;
  Diagnostics errors;
  for (const Node& node : graph.nodes) {
    if (family_of(node.kind) != Family::kTrain) continue;
    const fs::path saved = RunLayout(run.folder).node(node.id).checkpoints();
    trained[node.id] = {whole(saved), choice};
    if (!is_folder && list_checkpoints(saved).empty())
      errors.push_back(nothing_saved(run, node.id));
  }
  if (!errors.empty()) return errors;
  if (trained.empty()) {
    return Diagnostic{ErrorCode::kNoCheckpoint,
                      {},
                      "",
                      "the run in '" + run.folder.string() + "' did not train anything",
                      "its recipe has no train stage"};
  }
  if (!is_folder) return trained;
  if (trained.size() > 1) {
    return Diagnostic{
        ErrorCode::kUsage,
        {},
        "",
        "--checkpoint selects a single checkpoint, but the run has several training nodes: " +
            ids_of(trained),
        "--checkpoint best and --checkpoint latest apply to all of them"};
  }
  CheckpointSource& weights = trained.begin()->second;
  const bool is_one =
      checkpoint_name_from(whole(which).filename().string()) && real_file_system().is_folder(which);
  if (!is_one && !real_file_system().is_file(fs::path(which) / kCheckpointManifest))
    return no_such_checkpoint(which, weights.folder);
  weights = {whole(which), WeightsChoice::kThis};
  return trained;
}

bool has_weights(const fs::path& folder) {
  const RunLayout layout(folder);
  const std::vector<fs::path> records = whole_records(layout);
  if (records.empty() || real_file_system().is_file(layout.source())) return false;
  bool has_trained = false;
  for (const json& node :
       read_object(records.front() / RunRecord::kGraph).value("nodes", json::array())) {
    const json id = node.is_object() ? node.value("id", json()) : json();
    const json kind = node.is_object() ? node.value("kind", json()) : json();
    if (!id.is_string() || !kind.is_string() ||
        family_of(kind.get<std::string>()) != Family::kTrain)
      continue;
    if (list_checkpoints(layout.node(id.get<std::string>()).checkpoints()).empty()) return false;
    has_trained = true;
  }
  return has_trained;
}

Result<std::string> choose_training(const CheckpointSources& trained, const std::string& wanted) {
  if (wanted.empty() && trained.size() == 1) return trained.begin()->first;
  if (trained.contains(wanted)) return wanted;
  if (wanted.empty()) {
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "the run has several training nodes: " + ids_of(trained),
                      "name one: --node " + trained.begin()->first};
  }
  std::vector<std::string> names;
  for (const auto& [id, weights] : trained) names.push_back(id);
  const std::string help = did_you_mean(wanted, names);
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "the run has no training node '" + wanted + "'",
                    help.empty() ? "it has " + ids_of(trained) : help};
}

namespace {

Diagnostic busy_run(const std::filesystem::path& run_folder) {
  return {ErrorCode::kRunBusy,
          {},
          "",
          "the run '" + run_folder.string() + "' is still running",
          "wait until it ends, or stop it{}: only one process may write the record"};
}

}  // namespace

Result<RunLock> RunLock::take(const std::filesystem::path& run_folder, Lease::Options options) {
  auto lock =
      FolderLock::take(RunLayout(run_folder).records(), busy_run(run_folder), std::move(options));
  if (!lock) return lock.errors();
  return RunLock(std::move(*lock));
}

Result<RunLock> RunLock::join(const std::filesystem::path& run_folder) {
  auto lock = FolderLock::join(RunLayout(run_folder).records(), busy_run(run_folder));
  if (!lock) return lock.errors();
  return RunLock(std::move(*lock));
}

std::string status_now(const std::filesystem::path& run_folder, std::string recorded) {
  if (recorded != "running") return recorded;
  const auto is_taken = FolderLock::is_taken(RunLayout(run_folder).records());
  return is_taken.value_or(true) ? recorded : "interrupted";
}

}  // namespace runner
