#include "runner/parent/serve/run_catalog.h"

#include <algorithm>
#include <cmath>

#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "runner/parent/registry/run_curves.h"
#include "runner/parent/report/recorded_plan.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kBetweenReads(2), kOldest(5), kOfVisit(60);
constexpr std::size_t kLargestListedFile = 16 << 20;
constexpr std::size_t kWidestListedCurve = 16;  // columns
constexpr std::size_t kDigitsOfId = 16;

std::string id_from(const std::string& folder) { return sha256(folder).substr(0, kDigitsOfId); }

/// Finds the sweeps that trials in the catalog belong to, from the folders above the runs.
void find_sweeps(Catalog& catalog) {
  std::map<std::string, CatalogSweep*> known;  // by folder; null: not a sweep
  for (std::size_t i = 0; i < catalog.runs.size(); ++i) {
    const fs::path parent = fs::path(catalog.runs[i].folder).parent_path();
    const auto [found, is_new] = known.try_emplace(parent.string(), nullptr);
    std::error_code ignored;
    if (is_new && fs::is_regular_file(fs::symlink_status(SweepLayout(parent).journal(), ignored))) {
      catalog.sweeps.push_back(
          std::make_unique<CatalogSweep>(CatalogSweep{id_from(found->first), found->first, {}}));
      found->second = catalog.sweeps.back().get();
    }
    catalog.sweep_of.push_back(found->second);
    if (found->second) found->second->trials.push_back(i);
  }
}

std::int64_t peak_in(const fs::path& summary) {
  const auto text = real_file_system().read(summary, kLargestListedFile);
  const Json json = text ? parse_json<Json>(*text) : Json();
  const Json nodes = json.is_object() ? json.value("nodes", Json()) : Json();
  std::int64_t peak = 0;
  for (const Json& node : nodes.is_array() ? nodes : Json::array()) {
    const Json bytes = node.is_object() ? node.value("peak_memory_bytes", Json()) : Json();
    if (bytes.is_number_integer()) peak = std::max(peak, bytes.get<std::int64_t>());
  }
  return peak;
}

/// The finite numbers in a list of a training node's metrics.
std::vector<double> numbers_in(const Json& history, const char* name) {
  std::vector<double> numbers;
  const Json list = history.is_object() ? history.value(name, Json()) : Json();
  for (const Json& one : list.is_array() ? list : Json::array())
    if (one.is_number() && std::isfinite(one.get<double>())) numbers.push_back(one);
  return numbers;
}

std::string curve_in(const fs::path& run) {
  std::error_code ignored;
  for (const auto& node : fs::directory_iterator(RunLayout(run).nodes(), ignored)) {
    const auto text =
        real_file_system().read(NodeLayout(node.path()).training_metrics(), kLargestListedFile);
    if (!text) continue;
    const Json history = parse_json<Json>(*text);
    for (const char* name : {"val_accuracies", "val_losses", "train_losses"}) {
      const std::vector<double> values = numbers_in(history, name);
      if (values.size() > 1)
        return curve_line(values, {.width = kWidestListedCurve, .has_blocks = true});
    }
  }
  return "";
}

/// Returns a number that changes when a run's summary does; 0 if it cannot be read.
std::int64_t stamp_of(const fs::path& summary) {
  struct stat status {};
  if (::stat(summary.c_str(), &status) != 0) return 0;
  return status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec +
         status.st_size;
}

}  // namespace

const CatalogSweep* Catalog::sweep(const std::string& id) const {
  const auto found = std::ranges::find_if(sweeps, [&](const auto& one) { return one->id == id; });
  return found == sweeps.end() ? nullptr : found->get();
}

std::string Catalog::id_of(const std::string& folder) const {
  const auto found = std::ranges::lower_bound(runs, folder, {}, &ListedRun::folder);
  return found == runs.end() || found->folder != folder
             ? ""
             : ids[static_cast<std::size_t>(found - runs.begin())];
}

RunCatalog::~RunCatalog() {
  keeper_.request_stop();
  wake_.notify_all();
}

Result<std::shared_ptr<const Catalog>> RunCatalog::refresh() {
  const std::lock_guard reading(reading_);
  Diagnostics ignored;  // a damaged run is reported in its row
  auto listing = list_runs(request_, indexes_, ignored);
  if (!listing) return listing.errors();
  auto catalog = std::make_shared<Catalog>();
  catalog->runs = std::move(listing->runs);
  std::ranges::sort(catalog->runs, {}, &ListedRun::folder);  // of several folders
  for (const ListedRun& run : catalog->runs) {
    catalog->ids.push_back(id_from(run.folder));
    catalog->by_id.emplace(catalog->ids.back(), catalog->ids.size() - 1);
  }
  find_sweeps(*catalog);
  const std::lock_guard lock(mutex_);
  catalog_ = std::move(catalog);
  read_ = Clock::now();
  return catalog_;
}

std::shared_ptr<const Catalog> RunCatalog::contents() {
  {
    const std::lock_guard lock(mutex_);
    visited_ = Clock::now();
    if (catalog_ && visited_ - read_ < kOldest) return catalog_;
  }
  if (auto fresh = refresh()) return *fresh;
  else {
    auto kept = std::make_shared<Catalog>();
    kept->problem = fresh.errors().front().message;
    return kept;
  }
}

void RunCatalog::keep_fresh() {
  keeper_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(lock, stop, kBetweenReads, [] { return false; });
      if (stop.stop_requested() || Clock::now() - visited_ > kOfVisit) continue;
      lock.unlock();
      try {
        (void)refresh();
      } catch (const std::exception&) {
        // contents() tries again, and its page shows the error.
      }
      lock.lock();
    }
  });
}

Result<std::set<std::string>> RunCatalog::matching(const std::string& filter) {
  Sources sources;
  auto parsed = RunFilter::parse(filter, sources);
  if (!parsed) return parsed.errors();
  ListingRequest request = request_;
  request.filter = *std::move(parsed);
  // The index has just been updated, unless it could not be saved.
  request.as_indexed = true;
  const std::size_t runs = contents()->runs.size();
  Diagnostics ignored;
  auto listing = list_runs(request, indexes_, ignored);
  if (!listing || listing->all != runs) {
    request.as_indexed = false;
    listing = list_runs(request, indexes_, ignored);
  }
  if (!listing) return listing.errors();
  std::set<std::string> folders;
  for (const ListedRun& run : listing->runs) folders.insert(run.folder);
  return folders;
}

RunFacts RunCatalog::facts(const ListedRun& run) {
  const RunLayout layout(run.folder);
  const std::int64_t stamp = stamp_of(layout.summary());
  const bool is_over = run.entry.status != "running" && stamp != 0;
  if (is_over) {
    const std::lock_guard lock(mutex_);
    const auto known = facts_.find(run.folder);
    if (known != facts_.end() && known->second.stamp == stamp) return known->second.facts;
  }
  RunFacts facts{.planned_bytes = planned_bytes_of(run.folder).value_or(0),
                 .peak_bytes = peak_in(layout.summary()),
                 .curve = curve_in(run.folder)};
  if (is_over) {
    const std::lock_guard lock(mutex_);
    facts_[run.folder] = {stamp, facts};
  }
  return facts;
}

}  // namespace runner
