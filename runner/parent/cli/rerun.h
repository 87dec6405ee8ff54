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
  bool force = false;                  ///< run although the result may be entirely different
  ReuseOptions::Which reuse =
      ReuseOptions::Which::kCacheable;  ///< the nodes whose results may be reused from other runs
  LogFlags log;
};

/// Adds --force and --log-level to a verb that reruns; the run and the overrides are the verb's
/// own.
void add_rerun(Invocation& verb, RerunFlags& flags);

/// A new run from the record of another one: its resolved recipe with the overrides, its threads
/// and kind of device, and, if the recipe is the same, its plans. Everything that differs from the
/// record is reported before the run starts. If the inputs or the kinds of its stages have changed,
/// or the recorded run was resumed with other options, the result could silently differ, so the
/// rerun is refused (kChangedRun) unless `force` is set. kNoRun for an evaluation, which has no
/// recipe of its own.
class Rerun {
 public:
  /// Takes the summary of the new run with "folder", as RunSurroundings::on_end does.
  using OnEnd =
      std::function<void(const nlohmann::ordered_json& summary, const Diagnostics& found)>;

  /// `flags` is borrowed.
  Rerun(const RerunFlags& flags, RecordedRun run) : flags_(flags), run_(std::move(run)) {}

  /// Returns how the run ended. If the run has begun, `on_end` is called and prints in place of
  /// this function.
  ExitCode operator()(Console& console, OnEnd on_end = {});
  /// What differed from the record; known once the run has begun.
  const std::vector<RecordChange>& changes() const { return changes_; }

 private:
  Diagnostics look_for_changes(const nlohmann::ordered_json& environment, const Graph& graph,
                               const Value& before, const Value& recipe);

  const RerunFlags& flags_;
  const RecordedRun run_;
  std::vector<RecordChange> changes_;
};

}  // namespace runner
