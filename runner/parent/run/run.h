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
  const Sources& sources;  ///< for the order of diagnostics
  bool smoke = false;
  std::filesystem::path resume = {};  ///< the folder of a run to resume; empty: a new run
  CheckpointSources trained =
      {};  ///< trainings that the run in `source` has done; empty: all are to be done
  std::filesystem::path source = {};
  ReuseOptions::Which reuse =
      ReuseOptions::Which::kCacheable;  ///< of which nodes results are taken from other runs
  OwnDevice* device =
      nullptr;  ///< that the graph names; given back where the run leaves it. Null: nobody chose it
  std::vector<InputPath> inputs = {};  ///< that are recorded as they are when the run begins
  /// Of a new run: the folder of another one, whose plans the trainings take up; empty: each makes
  /// its own.
  std::filesystem::path plans = {};
  /// Of a new run: the folder of another one, as whose data this run's is divided; empty: as it
  /// falls out.
  std::filesystem::path divisions = {};
  bool accepts_changes = false;  ///< what has changed in the data since then is put up with
  /// Looks at what the environment.json of this run, or of this time that it is resumed, is to say,
  /// before anything is written; errors end the run, warnings are shown. Empty: nobody looks.
  std::function<Diagnostics(const nlohmann::ordered_json& environment)> check_environment = {};
};

/// Where and how a run happens: everything of the outside world that it touches.
struct RunSurroundings {
  WorkerCommand worker;   ///< its level is also that of log.txt
  std::ostream& results;  ///< stdout: the folder of a run that can be used
  std::ostream& err;      ///< stderr
  DisplayOptions display = {};
  /// Takes the summary (run_summary.h), with "folder", null where there is none, instead of
  /// `results`.
  std::function<void(const nlohmann::ordered_json& summary, const Diagnostics& found)> on_end = {};
  std::filesystem::path node_index =
      {};  ///< what runs of this user have finished (node_index.h); empty: none
  std::filesystem::path working_folder =
      {};  ///< outputs/ and a relative run.dir stand here; empty: the current one
  NextGpu next_gpu =
      {};  ///< where a run goes on that one GPU has no memory left for; empty: nowhere
  Storage& storage = disk();
  std::function<void()> before_flush =
      {};  ///< called when the worker wants what it has to be on the disk
  std::function<std::chrono::system_clock::time_point()> wall_clock =
      std::chrono::system_clock::now;
};

/// `retort run` and `retort resume`: has a worker run the graph, shows how it goes, keeps the
/// record, and says how it ended. Nothing is written before the worker has found every stage sound.
ExitCode run(const RunRequest& request, const RunSurroundings& surroundings);

/// What a worker prints, which comes in pieces, as lines. The last few are kept: they tell why it
/// died.
class WorkerOutput {
 public:
  /// `on_line` is called with each line, without its end; empty ones are left out.
  explicit WorkerOutput(std::function<void(const std::string&)> on_line)
      : on_line_(std::move(on_line)) {}

  void take(std::string_view text);
  /// Takes what has come without an end of line for a line.
  void take_rest();
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void report(const std::string& line);

  std::function<void(const std::string&)> on_line_;
  std::string text_;  // not yet a line
  std::deque<std::string> last_lines_;
};

}  // namespace runner
