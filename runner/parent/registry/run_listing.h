#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runner/parent/registry/run_filter.h"
#include "runner/parent/registry/run_index.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A run that a listing takes.
struct ListedRun {
  std::string folder;  ///< as its root was named: "outputs/2026-01-31/12-00-00"
  /// Without settings and metrics. Its status is that of now (run_lock.h), its source is named as
  /// its root was where that run is in one of the roots.
  RunEntry entry;
  double headline = 0;
  std::vector<std::vector<RunValue>> values =
      {};  ///< of each of RunListing::keys what it has; of `tag` several
};

struct RunListing {
  std::vector<IndexedKey> keys;  ///< that were asked for; metrics by their whole names
  std::vector<ListedRun> runs;   ///< by folder
  std::size_t all = 0;           ///< runs, also those that the filter leaves out
};

/// Which runs, and what of them.
struct ListingWish {
  std::vector<std::filesystem::path>
      folders;  ///< that hold runs; empty: outputs/ and multirun/, where they are
  RunFilter filter = {};
  std::vector<std::string> keys = {};  ///< further ones, whose values are wanted
  /// Told which folder is being read anew, and how many runs.
  std::function<void(const std::string& folder, std::size_t runs)> before_reading = {};
  bool anew = false;  ///< every run is read again, whatever the index holds
};

/// Lists runs by the indexes of their folders, which are brought up to date and stored. A key is a
/// fact of the run (run, recipe, status, started, seconds, device, smoke, tag, source), a dotted
/// key of its resolved recipe, or a metric by its whole name or a part of it that can mean one
/// metric only (metrics_meant()). Warns of indexes that cannot be used, of runs that are gone or
/// damaged, and where an index cannot be stored. kNoRun where a folder is not there, kUsage for a
/// key that no run has, or that may mean several metrics.
Result<RunListing> list_runs(const ListingWish& wish, const std::filesystem::path& indexes,
                             Diagnostics& warnings);

/// What runs in outputs/ and multirun/ may be sorted by, as their stored indexes have it, sorted:
/// for completion.
std::vector<std::string> listed_keys(const std::filesystem::path& indexes);

/// Puts the runs in the order of the value of the key `at` in listing.keys: of a metric the best
/// first, else ascending. Those that do not have it come last; equal ones stay in order.
/// `is_reversed`: the other way round.
void sort_runs(RunListing& listing, std::size_t at, bool is_reversed);

/// Puts evaluations behind the runs that they have evaluated, where those are listed; else all stay
/// in order.
void group_evaluations(RunListing& listing);

}  // namespace runner
