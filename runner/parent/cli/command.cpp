#include "runner/parent/cli/command.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {

void Invocation::add_recipe(NamedRecipe& target) {
  recipe = &target;
  overrides = &target.overrides;
  add({.name = "recipe",
       .value = &target.name,
       .summary = "A recipe's name, or a file ending in .yaml"});
  add({.name = "overrides",
       .value = &target.overrides,
       .summary = "key=value, +key=value, ++key=value, ~key or group=option, as in Hydra"});
  add({.name = "--config-name",
       .value = &target.config_name,
       .summary = "The recipe; also -cn, as in Hydra",
       .type = "NAME"});
  add({.name = "--config-path",
       .value = &target.config_path,
       .summary = "The folder to search for recipes instead of the working directory; also -cp",
       .type = "DIR"});
  add({.name = "--config-dir",
       .value = &target.config_dirs,
       .summary = "Another folder to search for recipes; also -cd",
       .type = "DIR",
       .once_each = true});
  add({.name = "--strict", .value = &target.strict, .summary = "Treat warnings as errors"});
}

std::span<const Command* const> all_commands() {
  static constexpr std::array kCommands = {
      &kRunCommand,    &kResumeCommand,   &kEvaluateCommand,   &kPredictCommand, &kEmbedCommand,
      &kExportCommand, &kAnalyzeCommand,  &kReportCommand,     &kServeCommand,   &kCompareCommand,
      &kRunsCommand,   &kSweepCommand,    &kWatchCommand,      &kPlanCommand,    &kCertifyCommand,
      &kLrFindCommand, &kValidateCommand, &kGraphCommand,      &kConfigCommand,  &kStagesCommand,
      &kSchemaCommand, &kExplainCommand,  &kInitCommand,       &kDataCommand,    &kDevicesCommand,
      &kDoctorCommand, &kTrustCommand,    &kCompletionCommand,
  };
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto commands = all_commands();
  const auto found =
      std::ranges::find(commands, name, [](const Command* command) { return command->name; });
  return found == commands.end() ? nullptr : *found;
}

void add_runs(Invocation& verb, RunSelection& selection, const std::string& summary) {
  verb.add({.name = "runs", .value = &selection.folders, .summary = summary, .required = true});
  verb.add(
      {.name = "--all",
       .value = &selection.all,
       .summary =
           "In a folder of runs, include those that failed, were stopped or are still running"});
}

Result<std::vector<RecordedRun>> selected_runs(const RunSelection& selection, Console& console) {
  std::vector<RecordedRun> runs;
  Diagnostics errors;
  std::size_t left_out = 0;
  for (const std::string& folder : selection.folders) {
    std::vector<std::filesystem::path> paths = runs_in(folder);
    const bool is_named =
        paths.empty() || paths.front() == std::filesystem::path(folder).lexically_normal();
    if (paths.empty()) paths.emplace_back(folder);
    for (const std::filesystem::path& path : paths) {
      if (!is_named && std::ranges::find(runs, path, &RecordedRun::folder) != runs.end()) continue;
      auto run = read_run(path);
      const bool is_wanted = is_named || selection.all || (run && run->status == "finished");
      if (!is_wanted) ++left_out;
      else if (run) runs.push_back(*std::move(run));
      else errors.insert(errors.end(), run.errors().begin(), run.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  if (left_out > 0 && !console.is_quiet())
    console.err << left_out
                << (left_out == 1 ? " unfinished run left out: --all includes it\n"
                                  : " unfinished runs left out: --all includes them\n");
  return runs;
}

namespace {

std::vector<std::string> known_levels() { return {kLogLevels.begin(), kLogLevels.end()}; }

}  // namespace

Result<LogLevel> LogFlags::chosen() const {
  const char* const variable = std::getenv("RETORT_LOG");
  const std::string word = !level.empty() ? level : variable ? variable : "";
  if (word.empty()) return LogLevel::kInfo;
  if (const auto named = log_level_named(word)) return *named;
  const std::string near = did_you_mean(word, known_levels());
  return Diagnostic{
      ErrorCode::kUsage,
      {},
      "",
      "RETORT_LOG is '" + word + "', which is not a log level",
      (near.empty() ? "" : near + " ") + "the levels are " + join(known_levels(), ", ")};
}

Result<WorkerCommand> LogFlags::worker() const {
  const auto level = chosen();  // an invalid level is reported before a missing worker
  if (!level) return level.errors();
  auto program = find_worker(own_executable());
  if (!program) return program.errors();
  return worker(*std::move(program));
}

Result<WorkerCommand> LogFlags::worker(std::filesystem::path program) const {
  const auto level = chosen();
  if (!level) return level.errors();
  return WorkerCommand{
      .program = std::move(program), .log = *level, .grace = std::chrono::seconds(grace_seconds)};
}

void add_log_level(Invocation& verb, LogFlags& flags, LogPlace place) {
  const char* const what = place == LogPlace::kFile
                               ? "Write log lines at this level and above to log.txt"
                               : "Show the worker's log lines at this level and above";
  verb.add({.name = "--log-level",
            .value = &flags.level,
            .summary = std::string(what) + "; default: $RETORT_LOG, or info",
            .type = "LEVEL",
            .choices = known_levels()});
}

void add_grace(Invocation& verb, LogFlags& flags) {
  verb.add(
      {.name = "--grace",
       .value = &flags.grace_seconds,
       .summary =
           "Seconds a worker may take to save when asked to stop, before it is killed; 0: no limit",
       .type = "SECONDS",
       .range = {0, 1000000},
       .shows_default = true});
}

ReuseOptions::Which ReuseFlags::which() const {
  using Which = ReuseOptions::Which;
  return none ? Which::kNone : all ? Which::kAll : Which::kCacheable;
}

void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary) {
  if (!all_summary.empty())
    verb.add({.name = "--reuse", .value = &flags.all, .summary = all_summary});
  verb.add({.name = "--no-reuse",
            .value = &flags.none,
            .summary = "Recompute everything, even features that an earlier run has computed",
            .excludes = all_summary.empty() ? "" : "--reuse"});
}

void add_strict(Invocation& verb, bool& strict) {
  verb.add({.name = "--strict",
            .value = &strict,
            .summary = "Reject Python code that can be planned only by running real steps"});
}

void add_ranks(Invocation& verb, const std::string& flag, std::int64_t& ranks) {
  verb.add({.name = flag,
            .value = &ranks,
            .summary = "Train with this many processes; short for device.count=N",
            .type = "N",
            .range = {1, 1'000'000},  // the schema enforces the real limit
            .key = "device.count"});
}

}  // namespace runner
