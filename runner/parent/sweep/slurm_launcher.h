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
  /// Runs the unfinished trials of the journal, as run_trials() does on this machine; all launchers
  /// share its contract and exit codes. Throws WriteError.
  virtual ExitCode run(SweepJournal& journal, const TrialOptions& options,
                       const TrialSurroundings& surroundings) = 0;
  /// True if there are results to show after run(). Otherwise it has printed something for the user
  /// to apply.
  virtual bool has_results() const { return true; }
};

/// Stores the validated `sweep.launcher` of a recipe in the folder of a sweep that is about to
/// begin; null means this machine. Throws WriteError.
void keep_launcher(const nlohmann::ordered_json& settings, const std::filesystem::path& sweep);
/// The launcher that the sweep in that folder was begun with, or this machine. The stored settings
/// may have been edited since: errors are those of the schema, or kDamagedRecord.
Result<std::unique_ptr<Launcher>> launcher_of(const std::filesystem::path& sweep);

/// Slurm: the trials are arrays of tasks, by sbatch, squeue, sacct and scancel. `settings` are
/// those of schemas/sweep/launcher/slurm.schema.json, and "prefix", the prefix of the names of its
/// jobs.
std::unique_ptr<Launcher> slurm_launcher(nlohmann::ordered_json settings);

/// The sbatch script for a submission whose folder is `folder`. Each task is retort itself, at
/// `program`, so signals reach it. USR1 comes before the time limit.
std::string slurm_script(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                         const Submission& submission, const std::filesystem::path& folder,
                         const std::filesystem::path& program);

/// Our values in the scripts of a cluster pass through these functions, one for each language of a
/// script. Each result is on one line, provided that the text has no control characters
/// (unfit_for_script()).

/// `text` as one shell word.
std::string shell_word(const std::string& text);
/// `text` as the value of an option on a line `#SBATCH --option=`, as sbatch parses it: unchanged,
/// or in quotes.
std::string sbatch_word(const std::string& text);
/// `text` as a YAML scalar, in quotes.
std::string yaml_word(const std::string& text);
/// `text` for a `command` of Kubernetes, which expands variables in `$(NAME)`.
std::string unexpanded(const std::string& text);

enum class ScriptKind { kSlurm, kKubernetes };
/// An error if the path of `what` ("the sweep's folder") has something that cannot be written into
/// a script: control characters, or what the scheduler would interpret. kClusterRefused.
std::optional<Diagnostic> unfit_for_script(const std::filesystem::path& path,
                                           const std::string& what, ScriptKind kind);

}  // namespace runner
