#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/stage/stage.h"
#include "runner/worker/left_memory.h"
#include "runner/worker/reuse.h"

namespace runner {

class KeptArtifacts;

class DryContext;

/// How to run a graph.
struct RunOptions {
  std::filesystem::path folder;  ///< the run folder; nodes write below its nodes/
  bool smoke = false;
  Observer* observer = nullptr;  ///< borrowed
  /// RankOfRun::first_folder is not used.
  RankOfRun ranks = {};
  /// For ranks other than 0: rank 0's run folder. If empty, `folder` is used.
  std::filesystem::path first_folder = {};
  bool resume = false;  ///< the run was interrupted: skip finished nodes and continue the rest
  CheckpointSources trained = {};  ///< nodes that do not train, because their results are loaded
                                   ///< from these checkpoints
  std::optional<ReuseOptions> reuse = {};  ///< nullopt: do not reuse results of other runs
  Restarts restarts = {};
  /// For a resumed run: its folder, for use by plan(), when `folder` is not set yet. Training nodes
  /// reuse the plans recorded there.
  std::filesystem::path resumed = {};
  std::filesystem::path cache = {};  ///< Allowance::cache
  /// For a new run: the folder of another run from which training nodes reuse plans; empty if none.
  std::filesystem::path plans = {};
  /// For a new run that repeats another run or evaluates its checkpoints: the folder of that run,
  /// to reuse its data division. Empty if none.
  std::filesystem::path divisions = {};
  bool accepts_changes = false;  ///< accept changes in the data since that run

  /// Returns the folder that contains the run's record.
  const std::filesystem::path& record() const {
    return first_folder.empty() ? folder : first_folder;
  }
};

/// What an executor needs from its environment. `emit` and `is_canceled` must not be empty.
struct ExecutorWorld {
  std::function<void(const Event&)> emit;
  std::function<bool()> is_canceled;
  /// Writes a line to the log at debug level.
  std::function<void(const std::string& node, std::string_view line)> debug = [](const std::string&,
                                                                                 auto) {};
  std::function<bool()> take_save_request = [] { return false; };
  /// Waits until everything emitted so far is on disk, so that `node` can save. `node` may be
  /// empty.
  std::function<void(const std::string& node)> sync_metrics = [](const std::string&) {};
  /// Called with an exception from a node before it is turned into a diagnostic; may end the
  /// process.
  std::function<void(const std::string& node, const std::exception& error)> on_failure =
      [](const std::string&, const std::exception&) {};
  /// Returns the peak of live tensor bytes since the last call; 0 if unknown.
  std::function<std::int64_t()> measure_peak_live = [] { return 0; };
  /// With several ranks: returns the string that rank 0 passed in.
  std::function<std::string(const std::string& own)> text_of_first = [](const std::string& own) {
    return own;
  };
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Runs a compiled graph inside the worker. Creates all stages, then runs them in run_order(),
/// passes artifacts along and frees each one after its last consumer. A resumed run skips a
/// finished node unless an unfinished node needs its outputs. A node is also skipped if its results
/// are reused from another run (reuse.h). A node that an earlier run has trained receives no data,
/// and nodes needed only for that data output nothing. Exceptions from stages are caught only here
/// and turned into diagnostics, except for Canceled, which is passed on.
class Executor {
 public:
  Executor(Graph graph, std::span<const StageKind* const> kinds, ExecutorWorld world);
  ~Executor();

  /// Creates all stages, or returns all of their errors at once.
  Diagnostics create();

  /// Determines the memory needs of the nodes that will run. Runs those that are too cheap to plan,
  /// and keeps their outputs for run(). Distributes the memory that the plans leave free
  /// (left_memory.h). Nodes that cannot be planned before the run are planned during the run,
  /// before they start. Returns the errors of nodes that do not fit or that reject their options or
  /// inputs; with `strict`, also returns an error for everything that keeps a node from being
  /// planned.
  Diagnostics plan(const RunOptions& options, const DryRunOptions& dry, bool strict,
                   std::string_view device);
  /// Returns the results of plan(), in the order of the graph's nodes.
  const std::vector<DryNode>& planned() const { return planned_; }

  /// Runs the stages that create() created. Must be called only once. Returns the worker's exit
  /// code; by then, all errors have been emitted. If the run is canceled, run() and plan() throw
  /// Canceled and emit no error. If a node can continue on another device, emits Stranded and
  /// returns kNeedsAnotherDevice.
  ExitCode run(const RunOptions& options, std::string_view device);

 private:
  ExitCode run_node(std::size_t index, KeptArtifacts& artifacts, const RunOptions& options,
                    std::string_view device, Reuse* reuse);
  ExitCode finish_without(std::size_t index, const RunOptions& options, Reuse* reuse);
  void report_reused(std::size_t index, const Reuse::Source& taken);
  ExitCode failed(const Node& node);
  std::unique_ptr<Reuse> make_reuse(const RunOptions& options, Diagnostics& unread) const;
  /// The inputs of a node when it starts.
  struct Given {
    Inputs inputs;
    std::set<std::string> wanted;  // outputs that have consumers
    std::vector<NamedBytes> held;  // other nodes' inputs that are kept on the device
  };
  Given take(std::size_t index, KeptArtifacts& artifacts, std::string_view device) const;
  DryContext dry_context(std::size_t index, const Given& given, const RunOptions& options,
                         std::string_view device);
  std::optional<Outputs> plan_node(std::size_t index, const Given& given, const RunOptions& options,
                                   std::string_view device);
  void warn_of_measured(const std::optional<MemoryPlan>& plan, const std::string& pointer);
  Outputs outputs_of(std::size_t index, const Given& given, RunContext& context,
                     const RunOptions& options, std::string_view device);

  Graph graph_;
  const std::vector<std::string> keys_;   // by node
  const std::vector<std::size_t> order_;  // the order in which the nodes run
  std::span<const StageKind* const> kinds_;
  const ExecutorWorld world_;
  std::vector<std::unique_ptr<Stage>> stages_;  // by node
  DryRunOptions dry_;
  std::vector<DryNode> planned_;  // by node
  // By node: the outputs that all ranks compute; empty if there is only one rank.
  std::vector<std::set<std::string>> outputs_of_all_;
  LeftMemory left_memory_;
  std::set<std::string> warned_of_;  // pointers of stages with measured plans
  std::shared_ptr<PlanShelf> shelf_ = std::make_shared<PlanShelf>();
};

}  // namespace runner
