#include "runner/parent/sweep/slurm_launcher.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_writer.h"
#include "runner/parent/schema/schema.h"
#include "runner/parent/sweep/follow_tasks.h"
#include "runner/parent/sweep/kubernetes_launcher.h"
#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/task_needs.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

class LocalLauncher : public Launcher {
 public:
  ExitCode run(SweepJournal& journal, const TrialOptions& options,
               const TrialSurroundings& surroundings) override {
    return run_trials(journal, options, surroundings);
  }
};

using Make = std::unique_ptr<Launcher> (*)(nlohmann::ordered_json settings);
constexpr std::array<std::pair<std::string_view, Make>, 2> kLaunchers = {
    {{"slurm", slurm_launcher}, {"kubernetes", kubernetes_launcher}}};

/// Returns a prefix that distinguishes this sweep's jobs from all others on the cluster.
std::string unique_prefix() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string text = "retort-";
  for (int digit = 0; digit < 8; ++digit) text += kDigits[random() % kDigits.size()];
  return text;
}

/// True if `text` looks like the result of unique_prefix(). The prefix is part of job names in
/// scripts and lists.
bool is_prefix(std::string_view text) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [](char letter) {
    return is_digit(letter) || (letter >= 'a' && letter <= 'z') || letter == '-';
  });
}

Diagnostic damaged_launcher(const std::filesystem::path& path, const std::string& why) {
  return {ErrorCode::kDamagedRecord,
          {},
          "",
          "'" + path.string() + "' does not describe a launcher for the sweep's trials: " + why,
          "write it as `retort explain sweep/launcher/slurm` describes"};
}

}  // namespace

void keep_launcher(const nlohmann::ordered_json& settings, const std::filesystem::path& sweep) {
  if (settings.is_null()) return;
  const LaunchLayout layout(sweep);
  make_folders(layout.folder());
  const nlohmann::ordered_json kept = {{"prefix", unique_prefix()}, {"launcher", settings}};
  write_atomically(layout.launcher(), kept.dump(2) + "\n");
}

Result<std::unique_ptr<Launcher>> launcher_of(const std::filesystem::path& sweep) {
  const auto path = LaunchLayout(sweep).launcher();
  std::ifstream file = open_regular(path);
  if (!file) return std::unique_ptr<Launcher>(std::make_unique<LocalLauncher>());
  const auto kept = parse_json<nlohmann::ordered_json>(file);
  if (!kept.is_object() || !kept.contains("launcher") || !kept["launcher"].is_object() ||
      !kept.contains("prefix") || !kept["prefix"].is_string())
    return damaged_launcher(path, "it lacks 'launcher' or 'prefix'");
  if (!is_prefix(kept["prefix"].get<std::string>()))
    return damaged_launcher(path,
                            "its 'prefix' may contain only lower-case letters, digits and '-'");
  Value asked = from_json(kept["launcher"]);
  const Value* const kind = asked.find("kind");
  for (const auto& [name, make] : kLaunchers) {
    if (!kind || !kind->text() || *kind->text() != name) continue;
    const Diagnostics errors =
        SchemaSet::open(embedded_schemas())
            .validate(asked, "sweep/launcher/" + std::string(name) + ".schema.json");
    if (!errors.empty())
      return damaged_launcher(path, errors.front().message + " [" + errors.front().pointer + "]");
    nlohmann::ordered_json settings = to_json(asked);
    settings["prefix"] = kept["prefix"];
    return make(std::move(settings));
  }
  return damaged_launcher(path, "there is no launcher of that kind");
}

namespace {

using Settings = nlohmann::ordered_json;

std::chrono::milliseconds milliseconds_of(const Settings& settings, const char* key,
                                          double factor) {
  return std::chrono::milliseconds(std::llround(settings.at(key).get<double>() * factor));
}

/// Returns the last line of a command's output that is worth showing.
std::string last_line(const std::string& said) {
  std::string last;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  return last;
}

/// True if this is the state that squeue shows for a job that has ended.
bool is_ended(const std::string& state) {
  constexpr std::array<std::string_view, 10> kEnded = {
      "BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE",     "FAILED",
      "NODE_FAIL", "OUT_OF_MEMORY", "REVOKED",   "SPECIAL_EXIT", "TIMEOUT"};
  return std::ranges::find(kEnded, state) != kEnded.end();
}

class SlurmQueue : public TaskQueue {
 public:
  SlurmQueue(const Settings& settings, SweepJournal& journal, const TrialSurroundings& surroundings,
             ClusterCommands& commands)
      : settings_(settings),
        journal_(journal),
        surroundings_(surroundings),
        commands_(commands),
        patience_(milliseconds_of(settings, "answer_seconds", 1000)) {}

  std::string name() const override { return "Slurm"; }

  Result<std::string> submit(const Submission& submission) override {
    for (const auto& [path, what] : {std::pair(journal_.folder(), "the sweep's folder"),
                                     std::pair(surroundings_.program, "this program")})
      if (auto unfit = unfit_for_script(path, what, ScriptKind::kSlurm)) return *std::move(unfit);
    if (!needs_) needs_ = task_needs(settings_, journal_, surroundings_, commands_);
    const auto folder = LaunchLayout(journal_.folder()).submission(submission.number);
    const auto script = folder / "script.sh";
    write_atomically(script,
                     slurm_script(settings_, *needs_, submission, folder, surroundings_.program));
    const auto outcome = commands_.run({"sbatch", "--parsable", script.string()}, patience_);
    if (outcome.is_silent || outcome.exit < 0 || outcome.exit == 127)
      return silence("sbatch", outcome);
    const std::string line = last_line(outcome.said);
    if (outcome.exit != 0) {
      // If sbatch could not reach the controller, it is unknown whether the job was accepted.
      if (outcome.said.find("ontact slurm controller") != std::string::npos ||
          outcome.said.find("imed out") != std::string::npos)
        return silence("sbatch", outcome);
      return Diagnostic{ErrorCode::kClusterRefused,
                        {},
                        "",
                        "sbatch rejected the trials: " + line,
                        "edit sweep.launcher in '" +
                            LaunchLayout(journal_.folder()).launcher().string() +
                            "' (`gpus: 0` for a cluster without GPUs), and continue with "
                            "`retort sweep resume " +
                            journal_.folder().string() + "`"};
    }
    const std::string job = line.substr(0, line.find(';'));  // "12;cluster" with several clusters
    if (!job.empty() &&
        std::ranges::all_of(job, [](char letter) { return letter >= '0' && letter <= '9'; }))
      return job;
    return silence("sbatch", outcome);
  }

  Result<std::vector<QueuedTask>> look(std::span<const Submission> submissions) override {
    std::vector<QueuedTask> tasks;
    if (submissions.empty()) return tasks;
    std::string names;
    for (const Submission& one : submissions) names += (names.empty() ? "" : ",") + one.name;
    const auto outcome = commands_.run(
        {"squeue", "-h", "-r", "-t", "all", "-n", names, "-o", "%j|%K|%T"}, patience_);
    if (outcome.is_silent || outcome.exit != 0) return silence("squeue", outcome);
    std::istringstream lines(outcome.said);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      QueuedTask task;
      std::string index;
      std::getline(fields, task.submission, '|');
      std::getline(fields, index, '|');
      std::getline(fields, task.state);
      if (index.empty() ||
          !std::ranges::all_of(index, [](char letter) { return letter >= '0' && letter <= '9'; }) ||
          index.size() > 9)
        continue;  // the line is a warning, not a task
      task.index = std::stoul(index);
      task.has_ended = is_ended(task.state);
      tasks.push_back(std::move(task));
    }
    return tasks;
  }

  std::string fate(const Submission& submission, std::size_t index) override {
    if (submission.job.empty()) return "";
    const auto outcome =
        commands_.run({"sacct", "-n", "-P", "-X", "-j",
                       submission.job + "_" + std::to_string(index), "-o", "State"},
                      patience_);
    if (outcome.is_silent || outcome.exit != 0) return "";  // many clusters do not use accounting
    return last_line(outcome.said);
  }

  Diagnostics cancel(std::span<const Submission> submissions) override {
    std::vector<std::string> words = {"scancel"};
    for (const Submission& one : submissions)
      if (!one.job.empty()) words.push_back(one.job);
    if (words.size() == 1) return {};
    const auto outcome = commands_.run(words, patience_);
    if (outcome.is_silent || outcome.exit != 0) return {silence("scancel", outcome)};
    return {};
  }

 private:
  Diagnostic silence(const std::string& command, const ClusterCommands::Outcome& outcome) const {
    const std::string line = last_line(outcome.said);
    std::string message = command;
    if (outcome.is_silent)
      message += " has not responded for " +
                 std::to_string(std::lround(static_cast<double>(patience_.count()) / 1000)) + " s";
    else if (outcome.exit == 127) message += " is not installed here";
    else
      message +=
          " exited with code " + std::to_string(outcome.exit) + (line.empty() ? "" : ": " + line);
    return {ErrorCode::kClusterSilent,
            {},
            "",
            message,
            "nothing is lost: once Slurm responds, `retort sweep resume " +
                journal_.folder().string() + "` collects the finished trials and submits the rest"};
  }

  const Settings& settings_;
  SweepJournal& journal_;
  const TrialSurroundings& surroundings_;
  ClusterCommands& commands_;
  const std::chrono::milliseconds patience_;
  std::optional<TaskNeeds> needs_;
};

class SlurmLauncher : public Launcher {
 public:
  explicit SlurmLauncher(Settings settings) : settings_(std::move(settings)) {}

  ExitCode run(SweepJournal& journal, const TrialOptions& options,
               const TrialSurroundings& surroundings) override {
    ClusterCommands commands;
    SlurmQueue queue(settings_, journal, surroundings, commands);
    const FollowOptions follow{.prefix = settings_.at("prefix").get<std::string>(),
                               .look = milliseconds_of(settings_, "look_seconds", 1000),
                               .patience = milliseconds_of(settings_, "patience_minutes", 60000),
                               .resubmissions = settings_.at("resubmissions").get<int>(),
                               .trials = options};
    return follow_tasks(
        journal, queue, follow, [&](std::chrono::milliseconds time) { return commands.wait(time); },
        surroundings);
  }

 private:
  const Settings settings_;
};

}  // namespace

std::unique_ptr<Launcher> slurm_launcher(nlohmann::ordered_json settings) {
  return std::make_unique<SlurmLauncher>(std::move(settings));
}

std::string slurm_script(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                         const Submission& submission, const std::filesystem::path& folder,
                         const std::filesystem::path& program) {
  std::string log;
  for (const char letter : folder.string())
    log += letter == '%' ? std::string("%%") : std::string(1, letter);
  std::string text = "#!/bin/bash\n";
  const auto option = [&](const std::string& line) { text += "#SBATCH " + line + "\n"; };
  const auto named = [&](const std::string& name, const std::string& value) {
    option("--" + name + "=" + sbatch_word(value));
  };
  named("job-name", submission.name);
  const auto& at_once = settings.at("at_once");
  option("--array=0-" + std::to_string(submission.trials.size() - 1) +
         (at_once.is_null() ? "" : "%" + std::to_string(at_once.get<std::int64_t>())));
  named("output", log + "/%a.log");
  option("--open-mode=append");
  option("--requeue");
  option("--signal=B:USR1@" + std::to_string(settings.at("warning_seconds").get<std::int64_t>()));
  option("--time=" + std::to_string(settings.at("time_minutes").get<std::int64_t>()));
  for (const char* key : {"partition", "account"})
    if (!settings.at(key).is_null()) named(key, settings.at(key).get<std::string>());
  const bool has_many = needs.nodes > 1;
  const std::string cores_of_rank = std::to_string(
      has_many ? std::max<std::int64_t>(1, needs.cores / needs.ranks_on_node) : needs.cores);
  if (has_many) {
    option("--nodes=" + std::to_string(needs.nodes));
    option("--ntasks-per-node=" + std::to_string(needs.ranks_on_node));
  } else {
    option("--ntasks=1");
  }
  option("--cpus-per-task=" + cores_of_rank);
  if (needs.gpus > 0)
    option((has_many ? "--gpus-per-node=" : "--gpus=") + std::to_string(needs.gpus));
  if (needs.memory_bytes)
    option("--mem=" + std::to_string((*needs.memory_bytes + (1 << 20) - 1) >> 20) + "M");
  for (const auto& further : settings.at("options")) option(further.get<std::string>());
  for (const auto& line : settings.at("setup")) text += line.get<std::string>() + "\n";
  text +=
      "export RETORT_REQUEUE=\"scontrol requeue ${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"\n";
  text += "export RETORT_TASK=\"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"\n";
  if (has_many)
    text += "export RETORT_RANKS=\"srun --nodes=" + std::to_string(needs.nodes) +
            " --ntasks-per-node=" + std::to_string(needs.ranks_on_node) +
            " --cpus-per-task=" + cores_of_rank + " --kill-on-bad-exit=1\"\n";
  text += "exec " + shell_word(program.string()) + " sweep task " + shell_word(folder.string()) +
          " \"$SLURM_ARRAY_TASK_ID\"\n";
  return text;
}

namespace {

bool is_plain_letter(char letter) {
  constexpr std::string_view kFurther = "-_./,:=%+@";
  return is_digit(letter) || is_letter(letter) || kFurther.find(letter) != kFurther.npos;
}

bool is_control_letter(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char letter : text)
    word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

std::string sbatch_word(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain_letter)) return text;
  std::string word = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') word += '\\';
    word += letter;
  }
  return word + '"';
}

std::string yaml_word(const std::string& text) { return quoted_yaml(text); }

std::string unexpanded(const std::string& text) {
  std::string result;
  for (const char letter : text)
    result += letter == '$' ? std::string("$$") : std::string(1, letter);
  return result;
}

std::optional<Diagnostic> unfit_for_script(const std::filesystem::path& path,
                                           const std::string& what, ScriptKind kind) {
  const std::string text = path.string();
  std::string why;
  if (std::ranges::any_of(text, is_control_letter)) why = "a control character, such as a newline";
  // A backslash would keep sbatch from expanding the task number in the name of the log.
  else if (kind == ScriptKind::kSlurm && text.find('\\') != text.npos) why = "a backslash";
  else if (kind == ScriptKind::kKubernetes && invalid_utf8(text)) why = "bytes that are not UTF-8";
  if (why.empty()) return std::nullopt;
  return Diagnostic{ErrorCode::kClusterRefused,
                    {},
                    "",
                    "the path of " + what + ", '" + printable(text) + "', has " + why +
                        ", which a script for the cluster cannot contain",
                    "give it another name, and start the sweep there"};
}

}  // namespace runner
