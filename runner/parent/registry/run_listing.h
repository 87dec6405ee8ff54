#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runner/parent/registry/run_filter.h"
#include "runner/parent/registry/run_index.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A run in a listing.
struct ListedRun {
  std::string folder;  ///< its path, beginning with its root as the user named it:
                       ///< "outputs/2026-01-31/12-00-00"
  /// Without settings and metrics. Its status is up to date (status_now()). If its source run is in
  /// one of the roots, the source begins with that root as the user named it.
  RunEntry entry;
  double headline = 0;
  std::vector<std::vector<RunValue>> values =
      {};  ///< its values for each of RunListing::keys; there may be several for `tag`
};

struct RunListing {
  std::vector<IndexedKey> keys;  ///< the requested keys; metrics by their full names
  std::vector<ListedRun> runs;   ///< sorted by folder
  std::size_t all = 0;           ///< the number of runs, including those that the filter excludes
};

/// Which runs to list, and which values.
struct ListingRequest {
  std::vector<std::filesystem::path>
      folders;  ///< folders that contain runs; if empty, outputs/ and multirun/, where they exist
  RunFilter filter = {};
  std::vector<std::string> keys = {};  ///< additional keys to list values for
  /// Called before runs are read, with their root and how many there are.
  std::function<void(const std::string& folder, std::size_t runs)> before_reading = {};
  bool anew = false;        ///< read all runs again, ignoring the index
  bool as_indexed = false;  ///< use the indexes as they are, without looking for changed runs
};

/// Lists runs from the indexes of their folders, which are updated and saved. A key is a fact about
/// the run (run, recipe, status, started, seconds, device, smoke, tag, source), a dotted key of its
/// resolved recipe, or a metric by its full name or by a part that matches only one metric
/// (metrics_meant()). Warns about indexes that cannot be used or saved, and about runs that no
/// longer exist or are damaged. Fails with kNoRun if a folder does not exist, and with kUsage for a
/// key that no run has or that matches several metrics.
Result<RunListing> list_runs(const ListingRequest& request, const std::filesystem::path& indexes,
                             Diagnostics& warnings);

/// Reads the record of a listed run again, and updates everything but its values.
void read_again(ListedRun& run);

/// Returns, in order, the keys by which runs in outputs/ and multirun/ can be sorted; for
/// completion. Reads only the stored indexes.
std::vector<std::string> listed_keys(const std::filesystem::path& indexes);

/// Sorts the runs by the key at index `at` in listing.keys: best first for a metric, otherwise
/// ascending. Runs without a value come last, and equal runs keep their order. `is_reversed`
/// reverses the order.
void sort_runs(RunListing& listing, std::size_t at, bool is_reversed);

/// Moves each evaluation to right after the run that it evaluated, if that run is listed. All other
/// runs keep their order.
void group_evaluations(RunListing& listing);

}  // namespace runner
