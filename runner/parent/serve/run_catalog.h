#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runner/parent/registry/run_listing.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A sweep in a catalog.
struct CatalogSweep {
  std::string id, folder;
  std::vector<std::size_t> trials;  ///< indices of its trials in Catalog::runs
};

/// The runs and sweeps below some folders at a given moment. Page addresses contain ids, which are
/// digests of folder names, so nothing that a client sends is used as a path.
struct Catalog {
  std::vector<ListedRun> runs;                ///< sorted by folder
  std::vector<std::string> ids;               ///< of each run
  std::vector<const CatalogSweep*> sweep_of;  ///< of each run; null: it is not a trial
  std::vector<std::unique_ptr<CatalogSweep>> sweeps;
  std::unordered_map<std::string, std::size_t> by_id;  ///< the index of a run in `runs`
  std::string problem = {};  ///< why the folders can no longer be read; empty: they can

  const CatalogSweep* sweep(const std::string& id) const;  ///< null: there is none
  /// Returns the id of the run in `folder`; empty if there is none.
  std::string id_of(const std::string& folder) const;
};

/// What a list shows about a run in addition to its entry.
struct RunFacts {
  std::int64_t planned_bytes = 0, peak_bytes = 0;  ///< 0: unknown
  std::string curve = {};  ///< a training stage's validation metric over its epochs, as a sparkline
};

/// Keeps the catalog of some folders up to date. While somebody is viewing it, a thread rereads the
/// folders every two seconds, so that pages with many runs do not have to wait. All functions may
/// be called by several threads at once.
class RunCatalog {
 public:
  /// `request` names the folders, and its callback is called before records are read; `indexes` is
  /// as for list_runs().
  RunCatalog(ListingRequest request, std::filesystem::path indexes)
      : request_(std::move(request)), indexes_(std::move(indexes)) {}
  ~RunCatalog();
  RunCatalog(const RunCatalog&) = delete;
  RunCatalog& operator=(const RunCatalog&) = delete;

  /// Reads the folders. Fails like list_runs(), and then keeps the previous catalog.
  Result<std::shared_ptr<const Catalog>> refresh();
  /// Returns the catalog, which is at most a few seconds old.
  std::shared_ptr<const Catalog> contents();
  /// Keeps rereading the folders as long as contents() was called within the last minute.
  void keep_fresh();
  /// Returns the folders of the runs that a filter matches (RunFilter), as of the last refresh.
  Result<std::set<std::string>> matching(const std::string& filter);
  /// Reads the facts of a run, or returns those read before if its record has not changed.
  RunFacts facts(const ListedRun& run);

 private:
  using Clock = std::chrono::steady_clock;
  struct KnownFacts {
    std::int64_t stamp = 0;
    RunFacts facts;
  };

  const ListingRequest request_;
  const std::filesystem::path indexes_;
  std::mutex reading_;  // held while the folders are read
  std::mutex mutex_;    // protects the following members
  std::shared_ptr<const Catalog> catalog_;
  Clock::time_point read_ = {}, visited_ = {};
  std::unordered_map<std::string, KnownFacts> facts_;
  std::condition_variable_any wake_;
  std::jthread keeper_;
};

}  // namespace runner
