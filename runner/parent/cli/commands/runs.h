#pragma once

#include <string>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/rerun.h"
#include "runner/parent/registry/run_listing.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The arguments of `retort runs`.
struct RunsFlags {
  std::string action;
  std::vector<std::string> words =
      {};                   ///< the run or runs, folders, filter or tags, depending on the action
  std::string node = {};    ///< reset: remove the results of this node
  std::string sort = {};    ///< ls: the key to sort by; empty: by folder
  std::string metric = {};  ///< best: a key; empty: the metric monitored by most runs
  bool is_reversed = false, all = false, removes = false, yes = false;
  RerunFlags rerun =
      {};  ///< rerun, reproduce: the options; the run and the overrides are in `words`
  std::string tolerance = {};  ///< reproduce: the largest relative difference; empty: 1e-3

  /// Returns the run, for actions that take one.
  const std::string& run() const { return words.front(); }
  /// Returns the flags of rerun and reproduce: the first word is the run, the others are overrides.
  RerunFlags as_rerun() const;
};

/// The actions of `retort runs`; long ones have their own file, runs_<action>.cpp.
ExitCode list_recorded_runs(const RunsFlags& flags, Console& console);
ExitCode show_run(const RunsFlags& flags, Console& console);
ExitCode show_run_difference(const RunsFlags& flags, Console& console);
ExitCode show_best_run(const RunsFlags& flags, Console& console);
ExitCode tag_run(const RunsFlags& flags, Console& console);
ExitCode remove_runs(const RunsFlags& flags, Console& console);
ExitCode reindex_runs(const RunsFlags& flags, Console& console);

/// Parses the words of ls, best and reindex: folders that contain runs, and at most one filter. A
/// word is a filter if it is not a folder and contains a filter operator. A second or invalid
/// filter is a kUsage error.
Result<ListingRequest> listing_request(const RunsFlags& flags, Console& console);

/// Returns a run's values for a key as JSON: a number or a string, null if there are none, or a
/// list if there are several.
nlohmann::ordered_json values_json(const std::vector<RunValue>& values);

/// Implements `retort runs rerun RUN [overrides]`: starts a new run from another run's record.
ExitCode rerun_run(const RerunFlags& flags, Console& console);

/// Implements `retort runs reproduce RUN [overrides]`: reruns RUN without reusing any earlier
/// results, and compares the new run with the recorded one. Returns kDone if they are identical, 2
/// if every metric is within `tolerance` (a number as a string), 3 if they differ, or the exit code
/// of the error that stopped the run. Fails with kNoResults if the recorded run has no results to
/// compare with.
ExitCode reproduce_run(RerunFlags flags, const std::string& tolerance, Console& console);

}  // namespace runner
