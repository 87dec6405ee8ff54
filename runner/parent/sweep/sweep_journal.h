#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/result.h"
#include "runner/parent/sweep/asha.h"
#include "runner/parent/sweep/trial.h"

namespace runner {

/// What a sweep is, as it was begun.
struct SweepPlan {
  std::string recipe;                  ///< as the command line named it
  std::vector<std::string> overrides;  ///< as typed, without secrets
  std::filesystem::path folder;        ///< where relative paths of the recipe stand
  std::vector<Trial> trials;           ///< all of them, numbered from 0
  std::optional<AshaOptions> asha = {};
  bool is_asked = false;  ///< its trials are those that a sampler thinks of, and there are none at first (ask_tell.h)
  std::string boot = {};  ///< of the system (boot_id), when the last line was written; empty: not known
  std::vector<std::uint64_t> unflushed = {};  ///< trials that have ended since the last flush
  std::vector<RungValue> rungs = {};          ///< what trials came to, in the order in which they were compared
};

/// The journal of a sweep, sweep.jsonl: a line that says what it is, then one for each thing that happens to a trial.
/// It only grows, and what is in it decides what is still to be done. Whoever writes it holds the lock on the
/// sweep's folder (folder_lock.h); nobody else can continue the sweep meanwhile, on whatever machine.
class SweepJournal {
 public:
  /// Of a new sweep in `folder`, which was made for it (sweep_layout.h) and holds no journal. Throws WriteError.
  static SweepJournal make(std::filesystem::path folder, SweepPlan plan, Storage& storage = disk());
  /// Of the sweep in `folder`, to be continued: trials that were at work are interrupted. kNoRun where there is none,
  /// kDamagedRecord where its first line cannot be read, kRunBusy where somebody works on it. A last line that was cut
  /// off is dropped.
  static Result<SweepJournal> reopen(const std::filesystem::path& folder, Storage& storage = disk(),
                                     Lease::Options options = {});
  /// What the journal in `folder` says, whoever works on it. Errors as of reopen(), but for kRunBusy.
  static Result<SweepPlan> read(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const SweepPlan& plan() const { return plan_; }
  const std::vector<Trial>& trials() const { return plan_.trials; }

  /// Throw WriteError. A trial is added with the next number, which is given back; `ask`: a sampler's answer to that.
  std::uint64_t add(std::string hash, std::vector<std::string> settings, std::optional<std::uint64_t> ask = {});
  void started(std::uint64_t trial);
  /// How long the attempt at a trial of which no end is known has been at work, by the record of its run; 0: there is
  /// none.
  double seconds_of_open_attempt(const Trial& trial) const;
  /// A trial has come to its next rung with that value.
  void reached(std::uint64_t trial, double value);
  void ended(std::uint64_t trial, TrialState state, int exit, double seconds, const std::string& reason = "");
  /// What was written here and in the sweep's folder survives a power cut from here on. Where the machine goes down
  /// before, trials that have ended since the last time are doubtful, and interrupted.
  void flush();

 private:
  SweepJournal(std::filesystem::path folder, SweepPlan plan, FolderLock lock)
      : folder_(std::move(folder)), plan_(std::move(plan)), lock_(std::move(lock)) {}

  std::filesystem::path folder_;
  SweepPlan plan_;
  FolderLock lock_;
  std::optional<NewFile> file_;
};

}  // namespace runner
