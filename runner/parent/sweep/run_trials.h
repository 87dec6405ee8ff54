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

/// How the trials of a sweep are run.
struct TrialOptions {
  std::int64_t slots = 1;    ///< trials at a time
  std::int64_t retries = 0;  ///< further attempts of one that fails
  std::optional<std::chrono::minutes>
      time_out;            ///< of an attempt, which is then asked to save and counts as failed
  bool fail_fast = false;  ///< after a failure nothing is started, and what runs saves and stops
};

/// Where they run, and who watches.
struct TrialSurroundings {
  std::filesystem::path
      program;  ///< retort itself: a trial is a process of its own, `retort run` or `retort resume`
  std::ostream& err;  ///< stderr
  Verbosity verbosity = Verbosity::kNormal;
  std::vector<std::string> arguments = {};         ///< further ones of each trial
  std::vector<std::string> run_arguments = {};     ///< further ones of those that begin
  std::vector<std::string> resume_arguments = {};  ///< further ones of those that are resumed
  DisplayOptions display = {};  ///< of stderr: on a terminal the trials stand below what is said
  std::function<int()> rows = [] { return 24; };  ///< of that terminal
  std::ostream* out =
      nullptr;  ///< stdout, for a launcher that prints what is to be applied; null: nowhere
  /// What `program` does for its arguments, so that a trial need not begin with loading it; empty:
  /// it is executed.
  std::function<int(const std::vector<std::string>& arguments)> body = {};
};

/// A variable of a trial's environment: what `retort run` writes need not be on the disk before it
/// saves or ends, for the sweep flushes it before it counts as finished (SweepJournal::flush()).
inline constexpr const char* kFlushedBySweep = "RETORT_FLUSHED_BY_SWEEP";

/// Where trials come from that are not known when a sweep begins.
class TrialSource {
 public:
  virtual ~TrialSource() = default;
  /// Asked again and again while `wanted` further trials could start: the numbers of those that
  /// were added to the journal meanwhile. Does not wait.
  virtual std::vector<std::uint64_t> take(std::size_t wanted) = 0;
  /// Whether no trial will come any more.
  virtual bool is_done() const = 0;
  /// A trial will not be started again.
  virtual void ended(const Trial& trial) = 0;
};

/// Whether a trial of the sweep in that folder will not be run again: it has finished and its run
/// is still there, or it was stopped early.
bool is_over(const SweepLayout& layout, const Trial& trial);

/// Runs what the journal says is still to be done: each trial that has not finished, or whose run
/// is no longer there, in the order of their numbers. A run that was begun is resumed; one that
/// cannot be is set aside, and begun anew. Of a sweep with `asha` a trial that is worse than others
/// at a rung is asked to save and stop, and is done. One that finishes without a value of its
/// metric is warned of; where none has given one, that is said, and the result is kBadRecipe. What
/// fails is told at once. SIGINT, SIGTERM and SIGHUP have the trials at work save and stop; the
/// journal knows them as interrupted. Goes on until `source`, where there is one, is done too.
/// kDone where all have finished, kSomeTrialsFailed, or how the program ends that was stopped
/// (stop.h). Throws WriteError.
ExitCode run_trials(SweepJournal& journal, const TrialOptions& options,
                    const TrialSurroundings& surroundings, TrialSource* source = nullptr);

/// The values of one metric in a metrics.jsonl that somebody is writing: "name", of whichever node,
/// or "node:name".
class MetricTail {
 public:
  MetricTail(std::filesystem::path file, std::string metric)
      : file_(std::move(file)), metric_(std::move(metric)) {}

  /// All that are there by now, in their order. Reads what is new; a file that was replaced is read
  /// from its beginning.
  const std::vector<double>& values();

 private:
  void take(const std::string& line);

  std::filesystem::path file_;
  std::string metric_;
  ino_t inode_ = 0;
  std::streamoff at_ = 0;  // bytes of whole lines that were read
  std::vector<double> values_;
};

/// The names of all metrics in a metrics.jsonl, sorted, without those of memory.
std::vector<std::string> metric_names(const std::filesystem::path& file);

}  // namespace runner
