#pragma once

#include <string>
#include <vector>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/rerun.h"
#include "runner/parent/registry/run_listing.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What `retort runs` is told.
struct RunsFlags {
  std::string action;
  std::vector<std::string> words =
      {};                   ///< the run or runs, folders, a filter, tags: as the action has it
  std::string node = {};    ///< reset: whose results go
  std::string sort = {};    ///< ls: a key; empty: by folder
  std::string metric = {};  ///< best: a key; empty: what most runs monitor
  bool is_reversed = false, all = false, removes = false, yes = false;
  RerunFlags rerun =
      {};  ///< rerun, reproduce: but for the run and the overrides, which are among the words
  std::string tolerance = {};  ///< reproduce: a number; empty: 1e-3

  /// Of an action that takes one.
  const std::string& run() const { return words.front(); }
  /// Of rerun and reproduce: the first word is the run, the others are overrides.
  RerunFlags as_rerun() const;
};

/// The verbs of `retort runs`, each in its file runs_<verb>.cpp.
ExitCode list_recorded_runs(const RunsFlags& flags, Console& console);
ExitCode show_run(const RunsFlags& flags, Console& console);
ExitCode show_run_difference(const RunsFlags& flags, Console& console);
ExitCode show_best_run(const RunsFlags& flags, Console& console);
ExitCode tag_run(const RunsFlags& flags, Console& console);
ExitCode remove_runs(const RunsFlags& flags, Console& console);
ExitCode reindex_runs(const RunsFlags& flags, Console& console);

/// The words of ls, best and reindex: folders that hold runs, and at most one filter, which is a
/// word that is no folder and has a filter's sign in it. kUsage for a second one or a mistake in
/// it.
Result<ListingWish> listing_wish(const RunsFlags& flags, Console& console);

/// A value of a run as JSON: a number or a text; null for none, a list for several.
nlohmann::ordered_json values_json(const std::vector<RunValue>& values);

/// `retort runs rerun RUN [overrides]`: a new run by the record of another one.
ExitCode rerun_run(const RerunFlags& flags, Console& console);

/// `retort runs reproduce RUN [overrides]`: the same without anything of earlier runs, compared
/// with the recorded one. kDone: identical; 2: every metric within `tolerance`, a number as text;
/// 3: another result; else what kept the run from its end. kNoResults where the recorded one has
/// none to compare with.
ExitCode reproduce_run(RerunFlags flags, const std::string& tolerance, Console& console);

}  // namespace runner
