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
  /// Runs the unfinished trials of the journal. All launchers follow the contract of run_trials(),
  /// which runs them on this machine, and return the same exit codes. Throws WriteError.
  virtual ExitCode run(SweepJournal& journal, const TrialOptions& options,
                       const TrialSurroundings& surroundings) = 0;
  /// True if there are results to show after run(). False if run() only printed something for the
  /// user to apply.
  virtual bool has_results() const { return true; }
};

/// Stores a recipe's validated `sweep.launcher` in the folder of a new sweep; null means this
/// machine. Throws WriteError.
void keep_launcher(const nlohmann::ordered_json& settings, const std::filesystem::path& sweep);
/// Returns the launcher with which the sweep in that folder was started; if none is stored, it runs
/// trials on this machine. The stored settings may have been edited since: returns the schema's
/// errors, or kDamagedRecord.
Result<std::unique_ptr<Launcher>> launcher_of(const std::filesystem::path& sweep);

/// Returns a launcher for Slurm, which runs the trials as arrays of tasks with sbatch, squeue,
/// sacct and scancel. `settings` follow schemas/sweep/launcher/slurm.schema.json, plus "prefix",
/// the prefix of the jobs' names.
std::unique_ptr<Launcher> slurm_launcher(nlohmann::ordered_json settings);

/// Returns the sbatch script for the submission in `folder`. Each task executes retort at `program`
/// directly, so signals reach it. USR1 is sent before the time limit.
std::string slurm_script(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                         const Submission& submission, const std::filesystem::path& folder,
                         const std::filesystem::path& program);

/// Functions that quote a value for a cluster script, one for each syntax. Each returns a single
/// line, provided that `text` has no control characters (unfit_for_script()).

/// Returns `text` as one shell word.
std::string shell_word(const std::string& text);
/// Returns `text` as the value of an option on a line `#SBATCH --option=`, as sbatch parses it:
/// unchanged, or in quotes.
std::string sbatch_word(const std::string& text);
/// Returns `text` as a quoted YAML scalar.
std::string yaml_word(const std::string& text);
/// Returns `text` for a Kubernetes `command`, escaped because Kubernetes expands `$(NAME)`.
std::string unexpanded(const std::string& text);

enum class ScriptKind { kSlurm, kKubernetes };
/// Returns an error (kClusterRefused) if the path of `what` ("the sweep's folder") contains
/// something that cannot be put into a script: control characters, or characters that the scheduler
/// would interpret.
std::optional<Diagnostic> unfit_for_script(const std::filesystem::path& path,
                                           const std::string& what, ScriptKind kind);

}  // namespace runner
