#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/report/run_progress.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/sweep/sweep_journal.h"

namespace runner {

/// A trial with how far its run is.
struct TrialProgress {
  Trial trial;
  RunProgress run;

  /// What is to be shown: the journal's word, or "finished" where the run says so already, and
  /// "silent" with it where a run at work has not measured anything for two minutes.
  std::string state() const;
  bool is_over() const;
  bool is_at_work() const;
  /// The journal says so, or its run does, which was killed with the sweep.
  bool is_interrupted() const;
};

/// The trials of the sweep in `folder`, read from their folders; with `most`, only what
/// trials_text() of so many shows is read, and the journal's word stands for the others.
std::vector<TrialProgress> trials_progress(const std::filesystem::path& folder,
                                           const std::vector<Trial>& trials,
                                           std::optional<std::size_t> most = {});

/// A table with trial, state, settings, epoch, metric, memory and ETA, and a last line with the
/// counts of all; of more than `most` trials those that are at work or failed first. With 0 it is
/// that line alone.
std::string trials_text(const std::vector<TrialProgress>& trials, std::size_t most);
/// How many trials such a table may show on a terminal of so many rows without scrolling: below a
/// head, above the counts and the cursor.
std::size_t trials_on_terminal(int rows);

/// One trial in a line, for where there is no terminal: "trial 3  running  epoch 2/10
/// validation/accuracy 0.8125".
std::string trial_line(const TrialProgress& trial);
/// A run alone: "running  train  epoch 2/10  validation/accuracy 0.8125  29 MiB  ETA 0:01:02".
std::string run_line(const RunProgress& run);

/// The table of the trials below what a sweep says, drawn again every second; nothing where stderr
/// is no terminal or is to be quiet. All are borrowed.
class LiveTrials {
 public:
  LiveTrials(
      const SweepJournal& journal, std::ostream& err, const DisplayOptions& display,
      std::function<int()> rows = [] { return 24; })
      : journal_(journal), err_(err), display_(display), rows_(std::move(rows)), text_(err) {}
  ~LiveTrials() { text_.clear(); }
  /// Says a line above it.
  void say(const std::string& line);
  /// Draws it where that is due; after how long to call again, nullopt where it is never drawn.
  std::optional<std::chrono::milliseconds> tick();

 private:
  const SweepJournal& journal_;
  std::ostream& err_;
  const DisplayOptions& display_;
  const std::function<int()> rows_;  // of the terminal
  LiveText text_;
  std::optional<std::chrono::steady_clock::time_point> drawn_;
};

nlohmann::ordered_json to_json(const RunProgress& run);
nlohmann::ordered_json to_json(const TrialProgress& trial);

}  // namespace runner
