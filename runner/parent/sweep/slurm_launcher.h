#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "runner/parent/sweep/run_trials.h"
#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/task_needs.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// Where the trials of a sweep run.
class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Brings about what the journal says is still to be done, as run_trials() does on this machine,
  /// whose contract and exit codes are those of all. Throws WriteError.
  virtual ExitCode run(SweepJournal& journal, const TrialOptions& options,
                       const TrialSurroundings& surroundings) = 0;
  /// Are there results to show now that run() has ended? Else it has printed what somebody is to
  /// apply.
  virtual bool has_results() const { return true; }
};

/// Keeps what `sweep.launcher` of a recipe asks for, validated, in the folder of a sweep that is
/// about to begin; null asks for this machine. Throws WriteError.
void keep_launcher(const nlohmann::ordered_json& settings, const std::filesystem::path& sweep);
/// The launcher that the sweep in that folder was begun with, or this machine. What it was asked
/// for may have been edited since: mistakes are those of the schema, or kDamagedRecord.
Result<std::unique_ptr<Launcher>> launcher_of(const std::filesystem::path& sweep);

/// Slurm: the trials as arrays of tasks, by sbatch, squeue, sacct and scancel. `settings` are those
/// of schemas/sweep/launcher/slurm.schema.json, and "prefix" of the names of its jobs.
std::unique_ptr<Launcher> slurm_launcher(nlohmann::ordered_json settings);

/// The script of sbatch for a submission whose folder is `folder`: each of its tasks is retort, at
/// `program`, so signals reach it. USR1 comes before the time limit.
std::string slurm_script(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                         const Submission& submission, const std::filesystem::path& folder,
                         const std::filesystem::path& program);

/// What of ours stands in the scripts of a cluster goes through these: one function for each
/// language that a script is written in. Each answer is on one line, provided that the text has no
/// control characters (unfit_for_script()).

/// `text` as one word of a shell.
std::string shell_word(const std::string& text);
/// `text` as the value of an option on a line `#SBATCH --option=`, as sbatch reads it: as it is, or
/// between quotes.
std::string sbatch_word(const std::string& text);
/// `text` as a scalar of YAML, between quotes.
std::string yaml_word(const std::string& text);
/// `text` in a `command` of Kubernetes, which puts variables in place of `$(NAME)`.
std::string unexpanded(const std::string& text);

enum class ScriptKind { kSlurm, kKubernetes };
/// What in the path of `what` ("the sweep's folder") cannot be written into a script: control
/// characters, and what the scheduler would take for something else. kClusterRefused.
std::optional<Diagnostic> unfit_for_script(const std::filesystem::path& path,
                                           const std::string& what, ScriptKind kind);

}  // namespace runner
