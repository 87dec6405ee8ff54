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
constexpr std::chrono::milliseconds kPatienceOfRequest(50);
constexpr int kRestPerReading = 10;  // pause after a reading, as a multiple of the time that it
                                     // took
constexpr std::string_view kInProgress = "running";
constexpr std::size_t kLargestListedFile = 16 << 20;
constexpr std::size_t kWidestListedCurve = 16;  // columns
constexpr std::size_t kDigitsOfId = 16;

std::string id_from(const std::string& folder) { return sha256(folder).substr(0, kDigitsOfId); }

/// Finds the sweeps that trials in the catalog belong to, from the folders above the runs.
void find_sweeps(Catalog& catalog) {
  std::map<std::string, CatalogSweep*> known;  // sweeps by folder; null: not a sweep
  for (std::size_t i = 0; i < catalog.runs.size(); ++i) {
    const fs::path parent = fs::path(catalog.runs[i].folder).parent_path();
    const auto [found, is_new] = known.try_emplace(parent.string(), nullptr);
    std::error_code ignored;
    if (is_new && fs::is_regular_file(fs::symlink_status(SweepLayout(parent).journal(), ignored))) {
      auto sweep =
          std::make_shared<CatalogSweep>(CatalogSweep{id_from(found->first), found->first, {}});
      found->second = sweep.get();
      catalog.sweeps.push_back(std::move(sweep));
    }
    catalog.sweep_of.push_back(found->second);
    if (found->second) found->second->trials.push_back(i);
  }
}

std::shared_ptr<Catalog> catalog_of(RunListing listing) {
  auto catalog = std::make_shared<Catalog>();
  catalog->runs = std::move(listing.runs);
  std::ranges::sort(catalog->runs, {}, &ListedRun::folder);  // of several folders
  for (const ListedRun& run : catalog->runs) {
    catalog->ids.push_back(id_from(run.folder));
    catalog->by_id.emplace(catalog->ids.back(), catalog->ids.size() - 1);
  }
  find_sweeps(*catalog);
  return catalog;
}

std::shared_ptr<Catalog> catalog_with(std::string problem) {
  auto catalog = std::make_shared<Catalog>();
  catalog->problem = std::move(problem);
  return catalog;
}

bool is_same_run(const ListedRun& a, const ListedRun& b) {
  return a.folder == b.folder && a.entry == b.entry &&
         (a.headline == b.headline || (std::isnan(a.headline) && std::isnan(b.headline)));
}

bool is_same_catalog(const Catalog& a, const Catalog& b) {
  const auto is_same_sweep = [](const auto& one, const auto& other) {
    return one->id == other->id && one->trials == other->trials;
  };
  return a.problem == b.problem && std::ranges::equal(a.runs, b.runs, is_same_run) &&
         std::ranges::equal(a.sweeps, b.sweeps, is_same_sweep);
}

/// Reads the runs in progress again. Returns null if all of them are as in the catalog.
std::shared_ptr<const Catalog> with_running_read(const Catalog& catalog) {
  std::shared_ptr<Catalog> renewed;
  for (std::size_t i = 0; i < catalog.runs.size(); ++i) {
    if (catalog.runs[i].entry.status != kInProgress) continue;
    ListedRun run = catalog.runs[i];
    read_again(run);
    if (is_same_run(run, catalog.runs[i])) continue;
    if (!renewed) renewed = std::make_shared<Catalog>(catalog);
    renewed->runs[i] = std::move(run);
  }
  return renewed;
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

/// Returns the finite numbers in a list of a training node's metrics.
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
  Clock::time_point begin = now_();
  Diagnostics ignored;  // a damaged run is reported in its row
  auto listing = list_runs(request_, indexes_, ignored);
  std::shared_ptr<const Catalog> catalog =
      listing ? catalog_of(*std::move(listing)) : catalog_with(listing.errors().front().message);
  std::unique_lock lock(mutex_);
  if (checked_ > begin) {  // a request has read them since this reading began
    lock.unlock();
    begin = now_();
    if (auto renewed = with_running_read(*catalog)) catalog = std::move(renewed);
    lock.lock();
  }
  publish(std::move(catalog), begin);
  if (!listing) return listing.errors();
  return catalog_;
}

/// Replaces the catalog if the new one differs. Must be called with mutex_ held.
void RunCatalog::publish(std::shared_ptr<const Catalog> catalog, Clock::time_point read) {
  if (!catalog_ || !is_same_catalog(*catalog_, *catalog)) catalog_ = std::move(catalog);
  checked_ = std::max(checked_, read);
  read_.notify_all();
}

std::shared_ptr<const Catalog> RunCatalog::contents() {
  std::unique_lock lock(mutex_);
  visited_ = now_();
  if (catalog_ && *visited_ - checked_ < kOldest) {
    wake_.notify_all();
    return catalog_;
  }
  if (!catalog_ || !is_kept_) {
    lock.unlock();
    (void)refresh();
    lock.lock();
    return catalog_;
  }
  wake_.notify_all();
  const Clock::time_point before = checked_;
  const auto is_read = [&] { return checked_ != before; };
  if (now_() >= next_) read_.wait_for(lock, kPatienceOfRequest, is_read);
  if (now_() - checked_ >= kOldest) check_running(lock);
  return catalog_;
}

/// Updates the runs in progress. Must be called with mutex_ held; releases it in the meantime.
void RunCatalog::check_running(std::unique_lock<std::mutex>& lock) {
  const auto known = catalog_;
  const Clock::time_point begin = now_();
  lock.unlock();
  auto renewed = with_running_read(*known);
  lock.lock();
  if (catalog_ == known) publish(renewed ? std::move(renewed) : known, begin);
}

void RunCatalog::keep_fresh() {
  {
    const std::lock_guard lock(mutex_);
    is_kept_ = true;
  }
  keeper_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
}

void RunCatalog::keep(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto is_visited = [this] { return visited_ && now_() - *visited_ <= kOfVisit; };
  while (wake_.wait(lock, stop, is_visited)) {
    wake_.wait_for(lock, stop, next_ - now_(), [] { return false; });
    if (stop.stop_requested()) return;
    if (!is_visited()) continue;
    lock.unlock();
    const Clock::time_point begin = now_();
    std::string problem;
    try {
      (void)refresh();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    lock.lock();
    if (!problem.empty()) publish(catalog_with(problem), begin);
    next_ = now_() + std::max<Clock::duration>(kBetweenReads, kRestPerReading * (now_() - begin));
  }
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
  const bool is_over = run.entry.status != kInProgress && stamp != 0;
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
