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
  std::vector<const CatalogSweep*> sweep_of;  ///< the sweep of each run; null if the run is not a
                                              ///< trial
  std::vector<std::shared_ptr<const CatalogSweep>> sweeps;
  std::unordered_map<std::string, std::size_t> by_id;  ///< the index of a run in `runs`
  std::string problem = {};  ///< why the folders cannot be read; empty: they can

  const CatalogSweep* sweep(const std::string& id) const;  ///< null: there is none
  /// Returns the id of the run in `folder`; empty if there is none.
  std::string id_of(const std::string& folder) const;
};

/// What a list shows for a run in addition to its entry.
struct RunFacts {
  std::int64_t planned_bytes = 0, peak_bytes = 0;  ///< 0: unknown
  std::string curve = {};  ///< a training stage's validation metric over its epochs, as a sparkline
};

/// Keeps the catalog of some folders up to date. While someone is viewing it, a thread keeps
/// reading the folders, so that requests do not have to wait: 10,000 runs take a third of a second.
/// What a request gets is
///
/// - less than five seconds old for runs in progress: if the thread has not read them in that
///   time, the request does. No run is shown as running for longer after it has ended.
/// - as of the last reading for everything else, such as new runs. A reading begins two seconds
///   after the previous one; later if readings would take more than a tenth of the time. The first
///   request after a minute without any starts one and waits for it, but not for long.
///
/// All functions may be called by several threads at once.
class RunCatalog {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  /// `request` specifies the folders, and its callback is called before records are read; `indexes`
  /// is as for list_runs().
  RunCatalog(ListingRequest request, std::filesystem::path indexes, Now now = Clock::now)
      : request_(std::move(request)), indexes_(std::move(indexes)), now_(std::move(now)) {}
  ~RunCatalog();
  RunCatalog(const RunCatalog&) = delete;
  RunCatalog& operator=(const RunCatalog&) = delete;

  /// Reads the folders. Fails like list_runs(); the catalog then contains only the problem.
  Result<std::shared_ptr<const Catalog>> refresh();
  /// Returns the catalog. It is the same object as before unless something has changed. Reads the
  /// folders if they have not been read yet, or if the last reading is more than five seconds old
  /// and nothing keeps the catalog fresh.
  std::shared_ptr<const Catalog> contents();
  /// Keeps reading the folders as long as contents() was called within the last minute.
  void keep_fresh();
  /// Returns the folders of the runs that a filter matches (RunFilter), as of the last reading.
  Result<std::set<std::string>> matching(const std::string& filter);
  /// Reads the facts of a run, or returns those read before if its record has not changed.
  RunFacts facts(const ListedRun& run);

 private:
  struct KnownFacts {
    std::int64_t stamp = 0;
    RunFacts facts;
  };
  void keep(const std::stop_token& stop);
  void publish(std::shared_ptr<const Catalog> catalog, Clock::time_point read);
  void check_running(std::unique_lock<std::mutex>& lock);

  const ListingRequest request_;
  const std::filesystem::path indexes_;
  const Now now_;
  std::mutex reading_;  // held while the folders are read
  std::mutex mutex_;    // protects the following members
  std::shared_ptr<const Catalog> catalog_;
  Clock::time_point checked_ = {};            // when the runs in progress were last read
  Clock::time_point next_ = {};               // when the next reading begins
  std::optional<Clock::time_point> visited_;  // when contents() was last called
  bool is_kept_ = false;                      // keeper_ has started
  std::unordered_map<std::string, KnownFacts> facts_;
  std::condition_variable_any wake_, read_;  // notified by a visit and by a completed reading
  std::jthread keeper_;
};

}  // namespace runner
