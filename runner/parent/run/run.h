#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/compose.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/record/run_folder.h"
#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/launched_rank.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"

namespace runner {

/// What to run. All of it is borrowed and must outlive the call.
struct RunRequest {
  const Composition& composition;
  const Recipe& recipe;
  const Graph& graph;
  const Sources& sources;  ///< for sorting diagnostics
  bool smoke = false;
  bool strict = false;                ///< refuse what cannot be planned without running it
  std::filesystem::path resume = {};  ///< the folder of a run to resume; empty: a new run
  CheckpointSources trained =
      {};  ///< trainings that the run in `source` has done; empty: the run does all of them
  std::filesystem::path source = {};
  ReuseOptions::Which reuse =
      ReuseOptions::Which::kCacheable;  ///< the nodes whose results may be reused from other runs
  OwnDevice* device = nullptr;  ///< the device that the graph names; released when the run leaves
                                ///< it. Null: it was not chosen
  std::vector<InputPath> inputs = {};  ///< recorded in their state when the run begins
  /// For a new run: the folder of another run, whose plans the trainings use; empty: each makes its
  /// own.
  std::filesystem::path plans = {};
  /// For a new run: the folder of another run, whose data splits this run uses; empty: it makes its
  /// own.
  std::filesystem::path divisions = {};
  bool accepts_changes = false;  ///< continue although the data have changed since
  /// Set if a launcher has started this process as one of the graph's ranks, and the others too.
  std::optional<LaunchedRank> launched = {};
  /// Checks the environment.json of this run, or of this resumption, before anything is written.
  /// Errors end the run, warnings are shown. Empty: no check.
  std::function<Diagnostics(const nlohmann::ordered_json& environment)> check_environment = {};
};

/// Where and how a run happens: everything outside the process that it uses.
struct RunSurroundings {
  WorkerCommand worker;   ///< its log level also applies to log.txt
  std::ostream& results;  ///< stdout: gets the folder of a usable run
  std::ostream& err;      ///< stderr
  DisplayOptions display = {};
  /// Takes the summary (run_summary.h), with "folder", null if there is none, instead of `results`.
  std::function<void(const nlohmann::ordered_json& summary, const Diagnostics& found)> on_end = {};
  std::filesystem::path node_index =
      {};  ///< results that this user's runs have finished (node_index.h); empty: none
  std::filesystem::path working_folder =
      {};                 ///< base of outputs/ and of a relative run.dir; empty: the current folder
  NextGpu next_gpu = {};  ///< takes the GPU on which a run continues after the first runs out of
                          ///< memory; empty: none
  Storage& storage = disk();
  std::function<void()> before_flush =
      {};  ///< called when the worker wants its files flushed to the disk
  std::function<std::chrono::system_clock::time_point()> wall_clock =
      std::chrono::system_clock::now;
};

/// `retort run` and `retort resume`: has a worker run the graph, shows the progress, writes the
/// record, and reports how the run ended. Nothing is written before the worker has validated every
/// stage.
ExitCode run(const RunRequest& request, const RunSurroundings& surroundings);

/// Splits a worker's output, which comes in pieces, into lines. The last few are kept: they explain
/// why it died.
class WorkerOutput {
 public:
  /// `on_line` is called with each line, without its end; empty lines are left out.
  explicit WorkerOutput(std::function<void(const std::string&)> on_line)
      : on_line_(std::move(on_line)) {}

  void take(std::string_view text);
  /// Treats the unfinished rest as a line.
  void take_rest();
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void report(const std::string& line);

  std::function<void(const std::string&)> on_line_;
  std::string text_;  // not yet a line
  std::deque<std::string> last_lines_;
};

}  // namespace runner
