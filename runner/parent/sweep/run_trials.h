#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "runner/parent/run/progress_display.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/line_tail.h"
#include "runner/shared/error/exit_code.h"
#include "runner/shared/error/log_level.h"

namespace runner {

/// How to run the trials of a sweep.
struct TrialOptions {
  std::int64_t slots = 1;    ///< number of trials to run at once
  std::int64_t retries = 0;  ///< additional attempts for a failed trial
  /// Limit per attempt; on timeout, the trial is asked to save and counts as failed.
  std::optional<std::chrono::minutes> time_out;
  bool fail_fast = false;  ///< after a failure, start no more trials; running ones save and stop
};

/// Where the trials run and where progress is shown.
struct TrialSurroundings {
  /// Retort itself; each trial is its own process, `retort run` or `retort resume`.
  std::filesystem::path program;
  std::ostream& err;  ///< stderr
  Verbosity verbosity = Verbosity::kNormal;
  std::vector<std::string> arguments = {};         ///< additional arguments of each trial
  std::vector<std::string> run_arguments = {};     ///< additional arguments of new trials
  std::vector<std::string> resume_arguments = {};  ///< additional arguments of resumed trials
  /// Display options of stderr; on a terminal, the trials are shown below the messages.
  DisplayOptions display = {};
  std::ostream* out = nullptr;  ///< stdout, for a launcher that prints a manifest; null: none
  /// Runs in a child process with the arguments of `program`, so that a trial need not load the
  /// program; empty: `program` is executed.
  std::function<int(const std::vector<std::string>& arguments)> body = {};
};

/// An environment variable set for trials. If it is set, `retort run` only needs to flush files to
/// disk when it saves or ends, because the sweep flushes them before the trial counts as finished
/// (SweepJournal::flush()).
inline constexpr const char* kFlushedBySweep = "RETORT_FLUSHED_BY_SWEEP";

/// A source of trials that are not known when a sweep begins.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  /// Called repeatedly, as long as `wanted` more trials could start. Returns the numbers of the
  /// trials added to the journal since the last call. Does not wait.
  virtual std::vector<std::uint64_t> take(std::size_t wanted) = 0;
  /// True if no more trials will come.
  virtual bool is_done() const = 0;
  /// Called for a trial that will not be started again.
  virtual void ended(const Trial& trial) = 0;
};

/// True if a trial of the sweep in that folder will not run again, because it has finished and its
/// run still exists, or because it was stopped early.
bool is_over(const SweepLayout& layout, const Trial& trial);

/// Runs the unfinished trials of the journal in the order of their numbers: those that have not
/// finished, and those with a run that no longer exists. Resumes a run that was begun; if that is
/// not possible, moves it aside and starts over. With `asha`, a trial that is worse than others at
/// a rung is asked to save and stop, and then counts as done. Warns if a trial finishes without a
/// value for the metric being compared; if no trial has measured it, reports that and returns
/// kBadRecipe. Reports failures immediately. On SIGINT, SIGTERM and SIGHUP, the running trials save
/// and stop, and the journal marks them as interrupted. With a `source`, continues until the source
/// is done too. Returns kDone if all trials have finished, kSomeTrialsFailed, or the exit code of a
/// stopped program (diagnostic.h). Throws WriteError.
ExitCode run_trials(SweepJournal& journal, const TrialOptions& options,
                    const TrialSurroundings& surroundings, TrialSource* source = nullptr);

/// Reads the values of one metric from a metrics.jsonl that is being written. `metric` is "name",
/// of any node, or "node:name".
class MetricTail {
 public:
  MetricTail(std::filesystem::path file, std::string metric)
      : tail_(std::move(file)), metric_(std::move(metric)) {}

  /// Returns all values so far, in order. Reads only new lines; if the file was replaced, reads it
  /// from the beginning.
  const std::vector<double>& values();

 private:
  void take(const std::string& line);

  LineTail tail_;
  std::string metric_;
  std::vector<double> values_;
};

/// Returns the names of all metrics in a metrics.jsonl, sorted, except memory metrics.
std::vector<std::string> metric_names(const std::filesystem::path& file);

}  // namespace runner
