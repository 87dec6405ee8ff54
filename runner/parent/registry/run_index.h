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

/// A run as a listing shows it.
struct IndexedRun {
  std::int64_t id = 0;  ///< in the index
  std::string folder;   ///< below the root; "." for the root itself
  RunEntry entry;       ///< without settings and metrics
  double headline = 0;  ///< the value of entry.headline
};

/// Which key a value belongs to.
struct IndexedKey {
  bool is_metric = false;
  std::string name;
};

/// What runs below one folder, the root, are known to have been and to have measured, so that they
/// can be listed without reading each. The folders are the truth: whatever is wrong with the index
/// costs the time to read them again. It is a file of the user's cache, read and written whole: as
/// many processes as like may use it, on any file system.
///
///   runs      a row a run: folder, when its names last changed, status, tags, …
///   keys      "train.epochs" of recipes, "evaluate/top1" of metrics
///   settings  by key and run: what the run has
class RunIndex {
 public:
  /// Of the runs below `root`, from its file below `folder`, run_index_folder(); where `folder` is
  /// empty, or there is no file, or it cannot be used, which is warned of, an empty index that
  /// refresh() fills. `root` is absolute.
  RunIndex(const std::filesystem::path& root, const std::filesystem::path& folder,
           Diagnostics& warnings);

  struct Changes {
    std::size_t read = 0;                ///< runs whose folders were read
    std::vector<std::string> gone = {};  ///< folders of runs that are no longer there
    bool any() const { return read > 0 || !gone.empty(); }
  };
  /// Reads what is new or has changed since, and forgets what is gone. `before_reading` is told how
  /// many are to be read. Throws DatabaseError.
  Changes refresh(const std::function<void(std::size_t)>& before_reading = {});
  /// Forgets everything.
  void clear();
  /// Throws WriteError or std::filesystem::filesystem_error. Without a folder for indexes nothing
  /// is done.
  void save(Storage& storage = disk());

  /// All, by folder. Throws DatabaseError, as the others.
  std::vector<IndexedRun> runs();
  /// Of recipes first, then of metrics, by name.
  std::vector<IndexedKey> keys();
  /// By the ids of the runs that have it, ascending.
  std::vector<std::pair<std::int64_t, RunValue>> values(const IndexedKey& key);
  /// Where it is stored; empty: nowhere.
  const std::filesystem::path& file() const { return file_; }

 private:
  void forget(std::int64_t run);
  void own();

  std::filesystem::path root_, file_;
  Database database_;
  bool is_stored_ = false;  // database_ is the file, and cannot be changed
};

/// Where the indexes of this user's runs are: runs/ beside the index of finished nodes
/// (node_index.h); empty where there is no such place.
std::filesystem::path run_index_folder();

/// A run's folder as a scan found it.
struct FoundRun {
  std::string folder;  ///< below the root: "2026-01-31/12-00-00"; "." for the root itself
  std::int64_t stamp =
      0;  ///< of its names and files; 0: its names changed so lately that they may do so unseen
  bool is_unchanged = false;  ///< its stamp is the one that was known
};

/// The runs in `root`: itself where it is one, or those up to three levels below it, sorted; where
/// `root` cannot be read, none. `known` has stamps of runs: such a one costs a few calls of the
/// system. Links are not followed.
///
/// A file of a run that changes comes under its name by a rename, which changes the times of the
/// run's folder; what somebody edits in place changes its own.
std::vector<FoundRun> scan_runs(const std::filesystem::path& root,
                                const std::unordered_map<std::string, std::int64_t>& known);

}  // namespace runner
