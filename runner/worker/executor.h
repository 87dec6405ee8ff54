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
  /// `first_folder` is not used.
  RankOfRun ranks = {};
  /// For a rank other than the first: the run folder of rank 0. Empty: `folder`.
  std::filesystem::path first_folder = {};
  bool resume =
      false;  ///< the run was interrupted: finished nodes are not run again, the others continue
  CheckpointSources trained = {};  ///< trainings that are not run: their results are loaded from
                                   ///< these
  std::optional<ReuseOptions> reuse = {};  ///< nullopt: results of other runs are not reused
  Restarts restarts = {};
  /// For a resumed run: its folder, for plan(), which has no `folder` yet. Trainings reuse their
  /// plans.
  std::filesystem::path resumed = {};
  std::filesystem::path cache = {};  ///< Allowance::cache
  /// For a new run: the folder of another run whose plans the trainings reuse; empty: none.
  std::filesystem::path plans = {};
  /// For a new run: the folder of another run whose data division it reuses. It repeats that run,
  /// or evaluates its trainings. Empty: none.
  std::filesystem::path divisions = {};
  bool accepts_changes = false;  ///< accept changes in the data since then

  /// The folder that has the run's record.
  const std::filesystem::path& record() const {
    return first_folder.empty() ? folder : first_folder;
  }
};

/// An executor's access to its environment. `emit` and `is_cancelled` must not be empty.
struct ExecutorWorld {
  std::function<void(const Event&)> emit;
  std::function<bool()> is_cancelled;
  /// Writes a line to the log at level debug.
  std::function<void(const std::string& node, std::string_view line)> debug = [](const std::string&,
                                                                                 auto) {};
  std::function<bool()> take_save_request = [] { return false; };
  /// Returns once everything emitted is on the disk; then `node` saves. `node` may be empty.
  std::function<void(const std::string& node)> sync_metrics = [](const std::string&) {};
  /// Called with what a node has thrown, before it becomes a diagnostic; may end the process.
  std::function<void(const std::string& node, const std::exception& error)> on_failure =
      [](const std::string&, const std::exception&) {};
  /// The peak of live tensor bytes since the last call; 0: unknown.
  std::function<std::int64_t()> measure_peak_live = [] { return 0; };
  /// With several ranks: returns the text that rank 0 has called it with.
  std::function<std::string(const std::string& own)> text_of_first = [](const std::string& own) {
    return own;
  };
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Creates the stage of `node`, by its kind among `kinds`; returns all errors in its options at
/// once.
Result<std::unique_ptr<Stage>> create_stage(const Node& node,
                                            std::span<const StageKind* const> kinds);

/// Runs a compiled graph inside the worker. Creates every stage, then runs them in run_order(),
/// passes artifacts on and frees each after its last consumer. A resumed run skips a finished node
/// unless an unfinished one needs its outputs, and also skips a node whose results are reused from
/// another run (reuse.h). A training that an earlier run has done gets no data, and nodes needed
/// only for that output nothing. Exceptions of stages are caught here, once, and become
/// diagnostics, except Cancelled, which passes through.
class Executor {
 public:
  Executor(Graph graph, std::span<const StageKind* const> kinds, ExecutorWorld world);
  ~Executor();

  /// Creates every stage; returns all errors of all stages at once.
  Diagnostics create();

  /// Finds out what the nodes that will run need, and runs those that are too cheap to plan; run()
  /// reuses their outputs. Shares out the memory that the plans leave free (left_memory.h). Nodes
  /// that cannot be planned before the run are planned in it, before they start. Returns the errors
  /// of nodes that would not fit or that reject their options or inputs; with `strict`, also
  /// everything that prevents a node from being planned.
  Diagnostics plan(const RunOptions& options, const DryRunOptions& dry, bool strict,
                   std::string_view device);
  /// By node, in the graph's order; available after plan().
  const std::vector<DryNode>& planned() const { return planned_; }

  /// Runs what create() made, once. Errors have been emitted; returns the worker's exit code. A
  /// cancelled run emits no error: run() and plan() throw Cancelled. If a node can continue on
  /// another device, emits Stranded and returns kNeedsAnotherDevice.
  ExitCode run(const RunOptions& options, std::string_view device);

 private:
  std::vector<bool> nodes_to_run(const RunOptions& options, Reuse* reuse) const;
  std::vector<bool> as_first_decides(std::vector<bool> runs, const RunOptions& options) const;
  ExitCode run_node(std::size_t index, KeptArtifacts& artifacts, const RunOptions& options,
                    std::string_view device, Reuse* reuse);
  ExitCode finish_without(std::size_t index, const RunOptions& options, Reuse* reuse);
  void report_reused(std::size_t index, const Reuse::Source& taken);
  ExitCode failed(const Node& node);
  std::unique_ptr<Reuse> make_reuse(const RunOptions& options, Diagnostics& unread) const;
  /// What a node is given when it starts.
  struct Given {
    Inputs inputs;
    std::set<std::string> wanted;  // of its outputs
    std::vector<NamedBytes> held;  // on its device, for other nodes
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
  LeftMemory left_memory_;
  std::set<std::string> warned_of_;  // pointers of stages whose plans were measured
  std::shared_ptr<PlanShelf> shelf_ = std::make_shared<PlanShelf>();
};

}  // namespace runner
