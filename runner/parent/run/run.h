#pragma once

#include <chrono>
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
#include "runner/parent/record/hparams.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/record/run_folder.h"
#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/launched_rank.h"
#include "runner/parent/run/progress_display.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"

namespace runner {

/// What to run. Everything is borrowed and must outlive the call.
struct RunRequest {
  const Composition& composition;
  const Recipe& recipe;
  const Graph& graph;
  const Sources& sources;  ///< used to sort diagnostics by location
  bool smoke = false;
  bool strict = false;                ///< reject stages that cannot be planned without running them
  std::filesystem::path resume = {};  ///< the folder of a run to resume; empty: a new run
  /// Checkpoints of the training nodes that the run in `source` has finished; empty: this run does
  /// its own training.
  CheckpointSources trained = {};
  std::filesystem::path source = {};
  /// The nodes that may reuse results of other runs.
  ReuseOptions::Which reuse = ReuseOptions::Which::kCacheable;
  /// The device named in the graph, released when the run leaves it; null: it was not chosen.
  OwnDevice* device = nullptr;
  std::vector<InputPath> inputs = {};  ///< their state is recorded when the run begins
  /// For a new run: the folder of a run with plans to reuse. Empty: each training stage makes its
  /// own plan.
  std::filesystem::path plans = {};
  /// For a new run: the folder of a run with data divisions to reuse. Empty: this run makes its
  /// own.
  std::filesystem::path divisions = {};
  /// For run.tensorboard: the settings of the trial that this run is; empty: it shows the options
  /// that the user has overridden.
  Hparams hparams = {};
  bool accepts_changes = false;  ///< continue even if data has changed since the earlier run
  /// Set if a launcher has started this process as one of the graph's ranks.
  std::optional<LaunchedRank> launched = {};
  /// Checks the environment.json of this run or resume before anything is written. Errors end the
  /// run; warnings are shown. Empty: no check.
  std::function<Diagnostics(const nlohmann::ordered_json& environment)> check_environment = {};
};

/// Where and how a run happens: everything that a run uses outside the process.
struct RunSurroundings {
  WorkerCommand worker;   ///< its log level also applies to log.txt
  std::ostream& results;  ///< stdout: receives the folder of a usable run
  std::ostream& err;      ///< stderr
  DisplayOptions display = {};
  /// Receives the summary (run_summary.h), with "folder" (null if there is none); if set, nothing
  /// is written to `results`.
  std::function<void(const nlohmann::ordered_json& summary, const Diagnostics& found)> on_end = {};
  /// The index of results from this user's earlier runs (node_index.h); empty: none.
  std::filesystem::path node_index = {};
  /// Base of outputs/ and of a relative run.dir; empty: the current folder.
  std::filesystem::path working_folder = {};
  /// Takes a GPU for the run to continue on after the first one runs out of memory; empty: none.
  NextGpu next_gpu = {};
  /// For run.mlflow.
  Environment environment = process_environment;
  std::filesystem::path executable = own_executable();
  Storage& storage = disk();
  /// Called when the worker wants its files to be flushed to disk.
  std::function<void()> before_flush = {};
  std::function<std::chrono::system_clock::time_point()> wall_clock =
      std::chrono::system_clock::now;
};

/// `retort run` and `retort resume`: has a worker run the graph, shows progress, writes the record,
/// and reports how the run ended. Writes nothing until the worker has validated every stage.
ExitCode run(const RunRequest& request, const RunSurroundings& surroundings);

}  // namespace runner
