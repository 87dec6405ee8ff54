#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runner/parent/registry/database.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A run as shown in a listing.
struct IndexedRun {
  std::int64_t id = 0;  ///< its row in the index
  std::string folder;   ///< below the root; "." for the root itself
  RunEntry entry;       ///< the entry without settings and metrics
  double headline = 0;  ///< the value of entry.headline
};

/// A key of the index: an option of recipes or a metric.
struct IndexedKey {
  bool is_metric = false;
  std::string name;
};

/// A cache of the runs below one folder, the root, so that they can be listed without reading each
/// run. The folders are authoritative: if the index is wrong, they just have to be read again. The
/// index is a file in the user's cache that is always written in full; any number of processes may
/// use it, on any file system.
///
///   runs      one row per run: folder, stamp, status, tags, …
///   keys      names of options, "train.epochs", and of metrics, "evaluate/top1"
///   settings  one row per key and run: the run's value
class RunIndex {
 public:
  /// Loads the index of the runs below `root`, an absolute path, from its file in `folder`,
  /// normally run_index_folder(). If `folder` is empty, or the file is missing or unusable (the
  /// latter with a warning), the index starts empty and refresh() fills it.
  RunIndex(const std::filesystem::path& root, const std::filesystem::path& folder,
           Diagnostics& warnings);

  struct Changes {
    std::size_t read = 0;                ///< number of run folders read
    std::vector<std::string> gone = {};  ///< folders of runs that no longer exist
    bool any() const { return read > 0 || !gone.empty(); }
  };
  /// Reads the runs that are new or have changed, and drops those that no longer exist.
  /// `before_reading` is called with the number of runs to read. Throws DatabaseError.
  Changes refresh(const std::function<void(std::size_t)>& before_reading = {});
  /// Removes all runs from the index.
  void clear();
  /// Writes the index to its file; does nothing if it has none. Throws WriteError or
  /// std::filesystem::filesystem_error.
  void save(Storage& storage = disk());

  /// Returns all runs, sorted by folder. Throws DatabaseError, as do keys() and values().
  std::vector<IndexedRun> runs();
  /// Returns the keys of recipes, then those of metrics, each sorted by name.
  std::vector<IndexedKey> keys();
  /// Returns the id and the value of each run that has the key, sorted by id.
  std::vector<std::pair<std::int64_t, RunValue>> values(const IndexedKey& key);
  /// Returns the index file; empty if it is not stored.
  const std::filesystem::path& file() const { return file_; }

 private:
  void forget(std::int64_t run);
  void own();

  std::filesystem::path root_, file_;
  Database database_;
  bool is_stored_ = false;  // database_ is the file itself and cannot be changed
};

/// Returns the folder with this user's run indexes: runs/ next to the index of finished nodes
/// (node_index.h). Empty if there is none.
std::filesystem::path run_index_folder();

/// A run's folder found by a scan.
struct FoundRun {
  std::string folder;      ///< below the root: "2026-01-31/12-00-00"; "." for the root itself
  std::int64_t stamp = 0;  ///< a stamp of its names and files; 0 if its names changed so recently
                           ///< that a further change could go unnoticed
  bool is_unchanged = false;  ///< its stamp has not changed
};

/// Returns the runs in `root`: `root` itself if it is a run, else those up to three levels below
/// it, sorted; none if `root` cannot be read. `known` contains the stamps of known runs by folder:
/// checking a run with an unchanged stamp takes only a few system calls. Links are not followed.
///
/// Files of a run are replaced by renaming, which changes the timestamps of the run's folder;
/// editing a file in place changes the file's own timestamps.
std::vector<FoundRun> scan_runs(const std::filesystem::path& root,
                                const std::unordered_map<std::string, std::int64_t>& known);

}  // namespace runner
