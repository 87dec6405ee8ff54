#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <sys/types.h>

#include "runner/parent/run/progress_display.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/error/exit_code.h"
#include "runner/shared/error/log_level.h"

namespace runner {

/// How to run the trials of a sweep.
struct TrialOptions {
  std::int64_t slots = 1;    ///< trials at a time
  std::int64_t retries = 0;  ///< additional attempts for a trial that fails
  std::optional<std::chrono::minutes>
      time_out;            ///< per attempt; on timeout it is asked to save and counts as failed
  bool fail_fast = false;  ///< after a failure no trial is started, and running ones save and stop
};

/// Where the trials run, and where progress is shown.
struct TrialSurroundings {
  std::filesystem::path
      program;  ///< retort itself: a trial is its own process, `retort run` or `retort resume`
  std::ostream& err;  ///< stderr
  Verbosity verbosity = Verbosity::kNormal;
  std::vector<std::string> arguments = {};         ///< additional arguments of each trial
  std::vector<std::string> run_arguments = {};     ///< additional arguments of new trials
  std::vector<std::string> resume_arguments = {};  ///< additional arguments of resumed trials
  DisplayOptions display = {};  ///< of stderr: on a terminal the trials are shown below the
                                ///< messages
  std::function<int()> rows = [] { return 24; };  ///< rows of that terminal
  std::ostream* out = nullptr;  ///< stdout, for a launcher that prints a manifest; null: nowhere
  /// Runs in a child instead of `program`, with its arguments, so that a trial need not load the
  /// program; empty: `program` is executed.
  std::function<int(const std::vector<std::string>& arguments)> body = {};
};

/// An environment variable of a trial: what `retort run` writes need not reach the disk before it
/// saves or ends, because the sweep flushes it before the trial counts as finished
/// (SweepJournal::flush()).
inline constexpr const char* kFlushedBySweep = "RETORT_FLUSHED_BY_SWEEP";

/// A source of trials that are not known when a sweep begins.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  /// Called repeatedly while `wanted` more trials could start. Returns the numbers of those added
  /// to the journal since. Does not wait.
  virtual std::vector<std::uint64_t> take(std::size_t wanted) = 0;
  /// True if no more trials will come.
  virtual bool is_done() const = 0;
  /// Called for a trial that will not be started again.
  virtual void ended(const Trial& trial) = 0;
};

/// True if a trial of the sweep in that folder will not be run again: it has finished and its run
/// still exists, or it was stopped early.
bool is_over(const SweepLayout& layout, const Trial& trial);

/// Runs the unfinished trials of the journal, in the order of their numbers: each trial that has
/// not finished, or whose run no longer exists. A run that was begun is resumed; if it cannot be,
/// it is set aside and started again. With `asha`, a trial that is worse than others at a rung is
/// asked to save and stop, and is done. Warns if a trial finishes without a value of its metric; if
/// no trial has given one, reports that and returns kBadRecipe. Failures are reported at once. On
/// SIGINT, SIGTERM and SIGHUP the running trials save and stop, and the journal marks them as
/// interrupted. Continues until `source`, if there is one, is done too. Returns kDone if all have
/// finished, kSomeTrialsFailed, or the exit code of a program that was stopped (diagnostic.h).
/// Throws WriteError.
ExitCode run_trials(SweepJournal& journal, const TrialOptions& options,
                    const TrialSurroundings& surroundings, TrialSource* source = nullptr);

/// The values of one metric in a metrics.jsonl that is being written: "name", of any node, or
/// "node:name".
class MetricTail {
 public:
  MetricTail(std::filesystem::path file, std::string metric)
      : file_(std::move(file)), metric_(std::move(metric)) {}

  /// All values so far, in their order. Reads what is new; a file that was replaced is read from
  /// its beginning.
  const std::vector<double>& values();

 private:
  void take(const std::string& line);

  std::filesystem::path file_;
  std::string metric_;
  ino_t inode_ = 0;
  std::streamoff at_ = 0;  // bytes of complete lines that were read
  std::vector<double> values_;
};

/// The names of all metrics in a metrics.jsonl, sorted, except those of memory.
std::vector<std::string> metric_names(const std::filesystem::path& file);

}  // namespace runner
