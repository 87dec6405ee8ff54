#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/run_progress.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/sweep/sweep_journal.h"

namespace runner {

/// A trial and the progress of its run.
struct TrialProgress {
  Trial trial;
  RunProgress run;

  /// Returns the state to show: the journal's, or "finished" if the run's record already says so.
  /// Adds "silent" if a running trial has recorded no metrics for two minutes.
  std::string state() const;
  bool is_over() const;
  bool is_at_work() const;
  /// True if the trial is interrupted according to the journal, or according to its run if the run
  /// was killed together with the sweep.
  bool is_interrupted() const;
};

/// Reads the progress of `trials` of the sweep in `folder`. With `most`, reads only the runs that
/// trials_text() with that limit shows; the other trials keep the journal's state.
std::vector<TrialProgress> trials_progress(const std::filesystem::path& folder,
                                           const std::vector<Trial>& trials,
                                           std::optional<std::size_t> most = {});

/// Returns a table with trial, state, metric, epoch, ETA, memory and settings, and a last line with
/// the counts of all trials. If there are more than `most`, shows running and failed trials first.
/// If `most` is 0, returns only the last line.
std::string trials_text(const std::vector<TrialProgress>& trials, std::size_t most,
                        std::size_t width = std::numeric_limits<std::size_t>::max());
/// Returns how many trials the table can show on a terminal with that many rows without scrolling,
/// leaving space for the heading, the counts and the cursor.
std::size_t trials_on_terminal(std::size_t rows);

/// Returns a trial as one line, for output other than a terminal: "trial 3 running epoch 2/10
/// validation/accuracy 0.8125".
std::string trial_line(const TrialProgress& trial);
/// Returns a run as one line: "running train epoch 2/10 validation/accuracy 0.8125 29 MiB ETA
/// 0:01:02".
std::string run_line(const RunProgress& run);

/// The table of trials below a sweep's messages, redrawn every second. Draws nothing if stderr is
/// not a terminal, or with quiet verbosity. All arguments are borrowed.
class LiveTrials {
 public:
  LiveTrials(const SweepJournal& journal, std::ostream& err, const DisplayOptions& display)
      : journal_(journal), err_(err), display_(display), text_(err) {}
  ~LiveTrials() { text_.clear(); }
  /// Prints a line above the table.
  void say(const std::string& line);
  /// Draws the table if it is due. Returns the time until the next call; nullopt if it is never
  /// drawn.
  std::optional<std::chrono::milliseconds> tick();

 private:
  const SweepJournal& journal_;
  std::ostream& err_;
  const DisplayOptions& display_;
  LiveText text_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
};

nlohmann::ordered_json to_json(const RunProgress& run);
nlohmann::ordered_json to_json(const TrialProgress& trial);

}  // namespace runner
