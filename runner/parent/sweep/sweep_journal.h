#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// `sweep.asha`: when trials are compared while they run.
struct AshaOptions {
  std::string metric;       ///< its name or "node:name"; of a loss or error the smaller is better
  std::int64_t first = 1;   ///< values of it at the first rung
  std::int64_t factor = 3;  ///< of values from one rung to the next, and of trials that go on
  std::optional<std::int64_t> last;  ///< values at which the last may be; nullopt: any number

  friend bool operator==(const AshaOptions&, const AshaOptions&) = default;
};

/// A value of the metric at a rung, from 0.
struct RungValue {
  std::uint64_t trial;
  std::size_t rung;
  double value;
};

/// Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter
/// Tuning", 2020) in the variant that stops trials: of all that have reached a rung so far, the
/// best of every `factor` go on, at least one. Nobody is waited for, so what is decided follows
/// from the values in the order in which they come, and from nothing else.
class Asha {
 public:
  Asha(const AshaOptions& options, bool is_smaller_better)
      : options_(options), is_smaller_better_(is_smaller_better) {}

  /// The rung at which a trial is with so many values of the metric; nullopt: between two.
  std::optional<std::size_t> rung_at(std::int64_t values) const;
  /// Whether the trial that has come to that rung with that value is to stop. NaN is worse than
  /// anything.
  bool stops(const RungValue& reached);

 private:
  const AshaOptions options_;
  const bool is_smaller_better_;
  std::map<std::size_t, std::vector<double>> values_;  // by rung
};

/// How far a run of a sweep is.
enum class TrialState { kWaiting, kRunning, kFinished, kFailed, kInterrupted, kStopped };

/// "waiting", "running", "finished", "failed", "interrupted", and "stopped" early because others
/// were better.
std::string_view name(TrialState state);
/// nullopt: no state is called that.
std::optional<TrialState> trial_state_named(std::string_view name);

/// One run of a sweep, and how it went so far.
struct Trial {
  std::uint64_t number = 0;  ///< from 0, in the order of the whole sweep; the name of its folder
  std::string hash;          ///< of its resolved recipe
  std::vector<std::string> settings;  ///< what it sets, "train.epochs=5", without secrets
  TrialState state = TrialState::kWaiting;
  int attempts = 0;       ///< times that it was started
  int exit = 0;           ///< of its last attempt
  double seconds = 0;     ///< of all attempts; of one at work nothing yet
  bool is_open = false;   ///< nothing is known of how its last attempt ended
  double ran_before = 0;  ///< seconds of work that its run's record told of when that began
  double lost = 0;        ///< of `seconds`, those of an open attempt that nobody follows any more
  std::string reason;     ///< why it failed, a line; may be empty
  bool is_doubtful = false;  ///< it has ended, but the machine went down before its files were
                             ///< known to be on the disk
  std::vector<double> rungs = {};         ///< values at which it was compared with others (asha.h)
  std::optional<std::uint64_t> ask = {};  ///< of a sampler's: which ask it answered (ask_tell.h)
};

/// What trial `number` sets and not all others do, for a message: " (seed=1 train.epochs=5)"; empty
/// where that is nothing.
std::string own_settings(const std::vector<Trial>& trials, std::uint64_t number);

/// What a sweep is, as it was begun.
struct SweepPlan {
  std::string recipe;                  ///< as the command line named it
  std::vector<std::string> overrides;  ///< as typed, without secrets
  std::filesystem::path folder;        ///< where relative paths of the recipe stand
  std::vector<Trial> trials;           ///< all of them, numbered from 0
  std::optional<AshaOptions> asha = {};
  bool is_asked = false;  ///< its trials are those that a sampler thinks of, and there are none at
                          ///< first (ask_tell.h)
  std::string boot =
      {};  ///< of the system (boot_id), when the last line was written; empty: not known
  std::vector<std::uint64_t> unflushed = {};  ///< trials that have ended since the last flush
  std::vector<RungValue> rungs =
      {};  ///< what trials came to, in the order in which they were compared
};

/// The journal of a sweep, sweep.jsonl: a line that says what it is, then one for each thing that
/// happens to a trial. It only grows, and what is in it decides what is still to be done. Whoever
/// writes it holds the lock on the sweep's folder (folder_lock.h); nobody else can continue the
/// sweep meanwhile, on whatever machine.
class SweepJournal {
 public:
  /// Of a new sweep in `folder`, which was made for it (sweep_layout.h) and holds no journal.
  /// Throws WriteError.
  static SweepJournal make(std::filesystem::path folder, SweepPlan plan, Storage& storage = disk());
  /// Of the sweep in `folder`, to be continued: trials that were at work are interrupted. kNoRun
  /// where there is none, kDamagedRecord where its first line cannot be read, kRunBusy where
  /// somebody works on it. A last line that was cut off is dropped.
  static Result<SweepJournal> reopen(const std::filesystem::path& folder, Storage& storage = disk(),
                                     Lease::Options options = {});
  /// What the journal in `folder` says, whoever works on it. Errors as of reopen(), but for
  /// kRunBusy.
  static Result<SweepPlan> read(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const SweepPlan& plan() const { return plan_; }
  const std::vector<Trial>& trials() const { return plan_.trials; }

  /// Throw WriteError. A trial is added with the next number, which is given back; `ask`: a
  /// sampler's answer to that.
  std::uint64_t add(std::string hash, std::vector<std::string> settings,
                    std::optional<std::uint64_t> ask = {});
  void started(std::uint64_t trial);
  /// How long the attempt at a trial of which no end is known has been at work, by the record of
  /// its run; 0: there is none.
  double seconds_of_open_attempt(const Trial& trial) const;
  /// A trial has come to its next rung with that value.
  void reached(std::uint64_t trial, double value);
  void ended(std::uint64_t trial, TrialState state, int exit, double seconds,
             const std::string& reason = "");
  /// What was written here and in the sweep's folder survives a power cut from here on. Where the
  /// machine goes down before, trials that have ended since the last time are doubtful, and
  /// interrupted.
  void flush();

 private:
  SweepJournal(std::filesystem::path folder, SweepPlan plan, FolderLock lock)
      : folder_(std::move(folder)), plan_(std::move(plan)), lock_(std::move(lock)) {}

  std::filesystem::path folder_;
  SweepPlan plan_;
  FolderLock lock_;
  std::optional<NewFile> file_;
};

/// The layout of a sweep's folder, for everything that writes or reads there.
///
///   sweep.jsonl             the journal: what the trials are, and how they went (sweep_journal.h)
///   recipes/3.yaml          the resolved recipe of trial 3, as it was when the sweep began
///   3/                      the run of trial 3; 3.attempt-1/ one before it that could not be
///   continued results.csv, results.json   the table at the end
class SweepLayout {
 public:
  explicit SweepLayout(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path journal() const { return folder_ / "sweep.jsonl"; }
  std::filesystem::path recipes() const { return folder_ / "recipes"; }
  std::filesystem::path recipe(std::uint64_t trial) const {
    return recipes() / (std::to_string(trial) + ".yaml");
  }
  std::filesystem::path run(std::uint64_t trial) const { return folder_ / std::to_string(trial); }
  std::filesystem::path set_aside(std::uint64_t trial, int attempt) const {
    return folder_ / (std::to_string(trial) + ".attempt-" + std::to_string(attempt));
  }
  std::filesystem::path results_csv() const { return folder_ / "results.csv"; }
  std::filesystem::path results_json() const { return folder_ / "results.json"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace runner
