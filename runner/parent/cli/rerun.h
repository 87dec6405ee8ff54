#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/run/run.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// How a recorded run is to be had again.
struct RerunFlags {
  std::string run;                     ///< its folder
  std::vector<std::string> overrides;  ///< key=value
  bool force = false;                  ///< run although the result may be another one altogether
  ReuseOptions::Which reuse =
      ReuseOptions::Which::kCacheable;  ///< of which nodes results are taken from other runs
  LogFlags log;
};

/// The parameters --force and --log-level of a verb that does that; the run and the overrides are
/// the verb's own.
void add_rerun(Invocation& verb, RerunFlags& flags);

/// A new run by the record of another one: its resolved recipe with the overrides, its threads and
/// kind of device, and where the recipe is the same its plans. All that differs from the record is
/// said before it starts; where the inputs or the kinds of its stages are others, or where it was
/// resumed with other options, the result could silently be another thing, and it is refused
/// (kChangedRun) unless `force` is given. kNoRun for an evaluation, which has no recipe of its own.
class Rerun {
 public:
  /// Takes the summary of the new run with "folder", as RunSurroundings::on_end does.
  using OnEnd =
      std::function<void(const nlohmann::ordered_json& summary, const Diagnostics& found)>;

  /// `flags` is borrowed.
  Rerun(const RerunFlags& flags, RecordedRun run) : flags_(flags), run_(std::move(run)) {}

  /// How it ended; `on_end` is called if it has begun, and prints instead of it.
  ExitCode operator()(Console& console, OnEnd on_end = {});
  /// What differed from the record, known once it has begun.
  const std::vector<RecordChange>& changes() const { return changes_; }

 private:
  Diagnostics look_for_changes(const nlohmann::ordered_json& environment, const Graph& graph,
                               const Value& before, const Value& recipe);

  const RerunFlags& flags_;
  const RecordedRun run_;
  std::vector<RecordChange> changes_;
};

}  // namespace runner
