#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/run/run.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// How to rerun a recorded run.
struct RerunFlags {
  std::string run;                     ///< its folder
  std::vector<std::string> overrides;  ///< key=value
  bool force = false;                  ///< run even if the result could be entirely different
  bool strict = false;                 ///< reject plans that need real steps
  ReuseOptions::Which reuse =
      ReuseOptions::Which::kCacheable;  ///< which nodes may reuse results of other runs
  LogFlags log;
};

/// Adds --force, --strict, --log-level and --grace to a verb that reruns a run. The verb itself
/// adds the run and the overrides.
void add_rerun(Invocation& verb, RerunFlags& flags);

/// Starts a new run from the record of another, using its resolved recipe with the overrides, its
/// number of threads, its kind of device and, if the recipe is the same, its plans. Every
/// difference from the record is reported before the run starts. If the inputs or the kinds of its
/// stages have changed, or the recorded run was resumed with other options, the result could
/// silently differ; the rerun is then refused (kChangedRun) unless `force` is set. Fails with
/// kNoRun for an evaluation, which has no training to run again.
class Rerun {
 public:
  /// Called with the summary of the new run, to which "folder" is added; like
  /// RunSurroundings::on_end.
  using OnEnd =
      std::function<void(const nlohmann::ordered_json& summary, const Diagnostics& found)>;

  /// `flags` is borrowed.
  Rerun(const RerunFlags& flags, RecordedRun run) : flags_(flags), run_(std::move(run)) {}

  /// Starts the run, waits for it to end and returns its exit code. If `on_end` is set, it is
  /// called when the run ends, but not if the run could not start, and must print the result.
  ExitCode operator()(Console& console, OnEnd on_end = {});
  /// Returns the differences from the record; they are known once the run has started.
  const std::vector<RecordChange>& changes() const { return changes_; }

 private:
  Diagnostics look_for_changes(const nlohmann::ordered_json& environment, const Graph& graph,
                               const Value& before, const Value& recipe);

  const RerunFlags& flags_;
  const RecordedRun run_;
  std::vector<RecordChange> changes_;
};

}  // namespace runner
