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

/// How a graph is to be run.
struct RunOptions {
  std::filesystem::path folder;  ///< the run folder; nodes write below its nodes/
  bool smoke = false;
  Observer* observer = nullptr;  ///< borrowed
  bool resume =
      false;  ///< it has been at work before: what is finished is not run again, the rest continues
  CheckpointSources trained = {};  ///< whose training is not run: its result is taken from there
  std::optional<ReuseOptions> reuse = {};  ///< nullopt: nothing of other runs is looked at
  Restarts restarts = {};
  /// Of a run that is resumed, its folder, for plan(), which has no `folder` yet: trainings take up
  /// their plans again.
  std::filesystem::path resumed = {};
  std::filesystem::path cache = {};  ///< Allowance::cache
  /// Of a new run, the folder of another one whose plans trainings take up; empty: none.
  std::filesystem::path plans = {};
  /// Of a new run, the folder of another one, as whose data its own is divided: which it does
  /// again, or whose trainings it evaluates. Empty: none.
  std::filesystem::path divisions = {};
  bool accepts_changes = false;  ///< what has changed in the data since then is put up with
};

/// What an executor touches of the world outside. `emit` and `is_cancelled` must not be empty.
struct ExecutorWorld {
  std::function<void(const Event&)> emit;
  std::function<bool()> is_cancelled;
  /// Writes a line to the log at level debug.
  std::function<void(const std::string& node, std::string_view line)> debug = [](const std::string&,
                                                                                 auto) {};
  std::function<bool()> take_save_request = [] { return false; };
  /// Returns when all that was emitted is on the disk; `node` then saves, or is empty.
  std::function<void(const std::string& node)> sync_metrics = [](const std::string&) {};
  /// Told what a node has thrown, before it becomes a diagnostic; may end the process.
  std::function<void(const std::string& node, const std::exception& error)> on_failure =
      [](const std::string&, const std::exception&) {};
  /// The most bytes that tensors took at once since the last call; 0: unknown.
  std::function<std::int64_t()> measure_peak_live = [] { return 0; };
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// The stage of `node`, by its kind among `kinds`; all errors of its options at once.
Result<std::unique_ptr<Stage>> create_stage(const Node& node,
                                            std::span<const StageKind* const> kinds);

/// Runs a compiled graph inside the worker: creates every stage, then runs them in run_order(),
/// handing artifacts on and freeing each after its last consumer. In a resumed run a finished node
/// is left out unless one that is not finished needs what it puts out; so is a node whose results
/// are another run's (reuse.h). A training that an earlier run has done is given no data, and what
/// only that would have needed puts out nothing. What stages throw is caught here, once, and
/// becomes a diagnostic; but for Cancelled, which passes through.
class Executor {
 public:
  Executor(Graph graph, std::span<const StageKind* const> kinds, ExecutorWorld world);
  ~Executor();

  /// Creates every stage; all errors of all stages at once.
  Diagnostics create();

  /// Finds out what the nodes that will run need, and runs those for which that is nothing; run()
  /// takes over what they put out. What the plans leave of the memory is shared (left_memory.h).
  /// What cannot be found out before the run is found out in it, before the node starts. The errors
  /// are those of nodes that would not fit or that refuse their options or inputs; with `strict`,
  /// all that keep a node from being planned.
  Diagnostics plan(const RunOptions& options, const DryRunOptions& dry, bool strict,
                   std::string_view device);
  /// By node, in the graph's order, once plan() has been called.
  const std::vector<DryNode>& planned() const { return planned_; }

  /// Runs what create() made, once. Errors have been emitted; the result is how the worker is to
  /// end. A run that was cancelled emits none: it, and plan(), throws Cancelled. One whose node may
  /// go on elsewhere says Stranded and ends with kNeedsAnotherDevice.
  ExitCode run(const RunOptions& options, std::string_view device);

 private:
  std::vector<bool> nodes_to_run(const RunOptions& options, Reuse* reuse) const;
  ExitCode run_node(std::size_t index, KeptArtifacts& artifacts, const RunOptions& options,
                    std::string_view device, Reuse* reuse);
  ExitCode finish_without(std::size_t index, const RunOptions& options, Reuse* reuse);
  void report_reused(std::size_t index, const Reuse::Source& taken);
  ExitCode failed(const Node& node);
  std::unique_ptr<Reuse> make_reuse(const RunOptions& options, Diagnostics& unread) const;
  /// What a node finds when it starts.
  struct Given {
    Inputs inputs;
    std::set<std::string> wanted;  // of its outputs
    std::vector<NamedBytes> held;  // on its device by others
  };
  Given take(std::size_t index, KeptArtifacts& artifacts, std::string_view device) const;
  DryContext dry_context(std::size_t index, const Given& given, const RunOptions& options,
                         std::string_view device);
  std::optional<Outputs> plan_node(std::size_t index, const Given& given, const RunOptions& options,
                                   std::string_view device);
  Outputs outputs_of(std::size_t index, const Given& given, RunContext& context,
                     const RunOptions& options, std::string_view device);

  Graph graph_;
  const std::vector<std::string> keys_;   // by node
  const std::vector<std::size_t> order_;  // in which the nodes run
  std::span<const StageKind* const> kinds_;
  const ExecutorWorld world_;
  std::vector<std::unique_ptr<Stage>> stages_;  // by node
  DryRunOptions dry_;
  std::vector<DryNode> planned_;  // by node
  LeftMemory left_memory_;
  std::shared_ptr<PlanShelf> shelf_ = std::make_shared<PlanShelf>();
};

}  // namespace runner
