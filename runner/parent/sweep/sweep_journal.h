#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/value.h"

namespace runner {

/// `sweep.asha`: when to compare trials while they are running.
struct AshaOptions {
  std::string metric;      ///< "name" or "node:name"; for a loss or an error, smaller is better
  std::int64_t first = 1;  ///< number of metric values at the first rung
  /// Ratio of the number of values from one rung to the next; one in `factor` trials continues.
  std::int64_t factor = 3;
  /// Number of values at the last rung; nullopt: no limit.
  std::optional<std::int64_t> last;

  friend bool operator==(const AshaOptions&, const AshaOptions&) = default;
};

/// A trial's metric value at a rung; rungs are numbered from 0.
struct RungValue {
  std::uint64_t trial;
  std::size_t rung;
  double value;
};

/// Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter
/// Tuning", 2020), in the variant that stops trials: of all trials that have reached a rung so far,
/// the best 1/`factor`, but at least one, continue. It never waits for a trial, so its decisions
/// depend only on the values and the order in which they arrive.
class Asha {
 public:
  Asha(const AshaOptions& options, bool is_smaller_better)
      : options_(options), is_smaller_better_(is_smaller_better) {}

  /// Returns the rung of a trial with `values` metric values; nullopt if it is between two rungs.
  std::optional<std::size_t> rung_at(std::int64_t values) const;
  /// True if the trial should stop after `reached`. NaN is worse than any other value.
  bool stops(const RungValue& reached);

 private:
  const AshaOptions options_;
  const bool is_smaller_better_;
  std::map<std::size_t, std::vector<double>> values_;  // by rung
};

/// The state of a trial of a sweep.
enum class TrialState { kWaiting, kRunning, kFinished, kFailed, kInterrupted, kStopped };

/// Returns "waiting", "running", "finished", "failed", "interrupted", or "stopped" (early, because
/// other trials were better).
std::string_view name(TrialState state);
/// Returns the state with that name; nullopt if there is none.
std::optional<TrialState> trial_state_named(std::string_view name);

/// A trial of a sweep and its state so far.
struct Trial {
  /// Numbered from 0, in the order of the whole sweep; also the name of the trial's folder.
  std::uint64_t number = 0;
  std::string hash;                   ///< hash of its resolved recipe
  std::vector<std::string> settings;  ///< its overrides, "train.epochs=5", without secrets
  TrialState state = TrialState::kWaiting;
  int attempts = 0;       ///< number of times it was started
  int exit = 0;           ///< exit code of its last attempt
  double seconds = 0;     ///< total of all attempts that have ended
  bool is_open = false;   ///< it is not known how its last attempt ended
  double ran_before = 0;  ///< seconds of work recorded when the open attempt began
  /// The part of `seconds` from an open attempt that is no longer followed.
  double lost = 0;
  std::string reason;  ///< why it failed, in one line; may be empty
  /// It ended, but the machine went down before its files were known to be on disk.
  bool is_doubtful = false;
  std::vector<double> rungs = {};  ///< values at which it was compared with others (Asha)
  /// For a sampler's trial: the number of the ask that produced it (ask_tell.h).
  std::optional<std::uint64_t> ask = {};
};

/// Splits "+train.epochs=5" into key and value; "~memory" removes a key, so its value is "~".
std::pair<std::string, std::string> key_and_value(const std::string& setting);

/// Returns the settings of a trial by key (key_and_value()).
std::map<std::string, std::string> settings_of(const Trial& trial);

/// Returns the settings of trial `number` that not all trials share, for messages: " (seed=1
/// train.epochs=5)"; empty if there are none.
std::string own_settings(const std::vector<Trial>& trials, std::uint64_t number);

/// The definition of a sweep at its start, and the state of its trials.
struct SweepPlan {
  std::string recipe;                  ///< as named on the command line
  std::vector<std::string> overrides;  ///< as typed, without secrets
  std::filesystem::path folder;        ///< base of the recipe's relative paths
  std::vector<Trial> trials;           ///< all of them, numbered from 0
  std::optional<AshaOptions> asha = {};
  /// The trials are chosen by a sampler, so there are none at first (ask_tell.h).
  bool is_asked = false;
  /// The system's boot_id when the last line was written; empty: unknown.
  std::string boot = {};
  std::vector<std::uint64_t> unflushed = {};  ///< trials that have ended since the last flush
  /// Values at which trials were compared, in the order of the comparisons.
  std::vector<RungValue> rungs = {};
  std::filesystem::path recipe_folder = {};  ///< folder of the recipe's own file; empty: unknown
};

/// The journal of a sweep, sweep.jsonl: a line that defines the sweep, then a line for each event
/// of a trial. It only grows, and determines what remains to be done. The writing process holds the
/// lock on the sweep's folder (folder_lock.h), so no other process on any machine can continue the
/// sweep in the meantime.
class SweepJournal {
 public:
  /// Creates the journal of a new sweep in `folder`, which was created for it (SweepLayout) and has
  /// no journal yet. Throws WriteError.
  static SweepJournal make(std::filesystem::path folder, SweepPlan plan, Storage& storage = disk());
  /// Opens the sweep in `folder` to continue it; trials that were running become interrupted.
  /// kNoRun if there is none, kDamagedRecord if its first line cannot be read, kRunBusy if another
  /// process is working on it. Drops an incomplete last line.
  static Result<SweepJournal> reopen(const std::filesystem::path& folder, Storage& storage = disk(),
                                     Lease::Options options = {});
  /// Reads the journal in `folder`, even if a process is working on the sweep. Same errors as
  /// reopen(), except kRunBusy.
  static Result<SweepPlan> read(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const SweepPlan& plan() const { return plan_; }
  const std::vector<Trial>& trials() const { return plan_.trials; }

  /// The following functions throw WriteError. add() assigns the next trial number and returns it;
  /// `ask` is the number of the sampler's ask that produced the trial, if any.
  std::uint64_t add(std::string hash, std::vector<std::string> settings,
                    std::optional<std::uint64_t> ask = {});
  void started(std::uint64_t trial);
  /// Returns how long an attempt without a recorded end ran, according to its run's record; 0 if
  /// there is no record.
  double seconds_of_open_attempt(const Trial& trial) const;
  /// Records that a trial has reached its next rung with `value`.
  void reached(std::uint64_t trial, double value);
  void ended(std::uint64_t trial, TrialState state, int exit, double seconds,
             const std::string& reason = "");
  /// Makes everything written so far, here and in the sweep's folder, survive a power failure. If
  /// the machine goes down before that, trials that have ended since the last flush are doubtful
  /// and become interrupted.
  void flush();

 private:
  SweepJournal(std::filesystem::path folder, SweepPlan plan, FolderLock lock)
      : folder_(std::move(folder)), plan_(std::move(plan)), lock_(std::move(lock)) {}

  std::filesystem::path folder_;
  SweepPlan plan_;
  FolderLock lock_;
  std::optional<NewFile> file_;
};

/// The layout of a sweep's folder, for all code that reads or writes it.
///
///   sweep.jsonl             the journal: the trials and their outcomes (SweepJournal)
///   recipes/3.yaml          the resolved recipe of trial 3, as it was when the sweep began
///   3/                      the run of trial 3
///   3.attempt-1/            an earlier run of trial 3 that could not be continued
///   results.csv, results.json   the final table
///   tensorboard/            hyperparameters and metrics for TensorBoard (sweep_tensorboard.h)
///   mlflow.json             what retort-tracker has sent to MLflow servers
///   out_of_fold.csv             the out-of-fold predictions of a cross-validation
///   report.html, report.md      the output of `retort report`
class SweepLayout {
 public:
  explicit SweepLayout(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path journal() const { return folder_ / kSweepJournal; }
  std::filesystem::path recipes() const { return folder_ / "recipes"; }
  std::filesystem::path recipe(std::uint64_t trial) const {
    return recipes() / (std::to_string(trial) + ".yaml");
  }
  std::filesystem::path run(std::uint64_t trial) const { return folder_ / std::to_string(trial); }
  std::filesystem::path set_aside(std::uint64_t trial, int attempt) const {
    return folder_ / (std::to_string(trial) + ".attempt-" + std::to_string(attempt));
  }
  std::filesystem::path results_csv() const { return folder_ / "results.csv"; }
  std::filesystem::path tensorboard() const { return folder_ / "tensorboard"; }
  std::filesystem::path out_of_fold_csv() const { return folder_ / "out_of_fold.csv"; }
  std::filesystem::path results_json() const { return folder_ / "results.json"; }
  std::filesystem::path report(bool is_html) const {
    return folder_ / (is_html ? "report.html" : "report.md");
  }

 private:
  std::filesystem::path folder_;
};

/// Returns the recipe with which a trial was started; nullopt if its file is missing or is not
/// YAML.
std::optional<Value> trial_recipe(const SweepLayout& layout, std::uint64_t trial, Sources& sources);

}  // namespace runner
