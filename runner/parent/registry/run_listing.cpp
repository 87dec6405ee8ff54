#include "runner/parent/registry/run_listing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "runner/parent/report/main_metric.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<RunValue>;

constexpr std::array<std::string_view, 9> kFacts = {
    "run", "recipe", "status", "started", "seconds", "device", "smoke", "tag", "source"};
constexpr std::size_t kNamedGone = 3;   // maximum number of runs named in a warning
constexpr std::size_t kNamedMeant = 4;  // maximum number of metrics named in an error

/// Returns the path that identifies the index of a root, no matter how the user wrote the root.
fs::path whole_root(const fs::path& root) { return fs::absolute(root).lexically_normal() / ""; }

bool is_fact(const std::string& key) { return std::ranges::find(kFacts, key) != kFacts.end(); }

Values fact(const ListedRun& run, const std::string& key) {
  const RunEntry& entry = run.entry;
  if (key == "run") return {run.folder};
  if (key == "recipe") return {entry.recipe};
  if (key == "status") return {entry.status};
  if (key == "started") return {entry.started};
  if (key == "device") return {entry.device};
  if (key == "smoke") return {std::string(entry.smoke ? "true" : "false")};
  if (key == "source") return entry.source.empty() ? Values{} : Values{entry.source};
  if (key == "seconds") return entry.seconds > 0 ? Values{entry.seconds} : Values{};
  return {entry.tags.begin(), entry.tags.end()};
}

/// Adds the values of recipe keys and metrics to the runs of one index. Skips facts about a run,
/// such as `status`.
void fill_values(RunIndex& index, const std::vector<IndexedRun>& rows, std::span<ListedRun> runs,
                 const std::vector<IndexedKey>& keys) {
  std::unordered_map<std::int64_t, std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) places[rows[i].id] = i;
  for (ListedRun& run : runs) run.values.resize(keys.size());
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (is_fact(keys[k].name)) continue;
    for (auto& [id, value] : index.values(keys[k])) {
      const auto place = places.find(id);
      if (place != places.end()) runs[place->second].values[k] = {std::move(value)};
    }
  }
}

Diagnostic unknown_key(const std::string& key, std::vector<std::string> names) {
  names.insert(names.end(), kFacts.begin(), kFacts.end());
  const std::string near = did_you_mean_path(key, names);
  return {ErrorCode::kUsage,
          {},
          "",
          "no run here has '" + key + "'",
          near.empty() ? "use a recipe key such as model.kind, a metric, or one of run, "
                         "recipe, status, started, seconds, device, smoke, tag and source"
                       : near};
}

Diagnostic ambiguous_key(const std::string& key, const std::vector<std::string>& meant) {
  return {ErrorCode::kUsage,
          {},
          "",
          "'" + key + "' may be " + either(meant, kNamedMeant),
          "write the full name of the one you mean"};
}

/// Finds what `name` means among the keys of all indexes: a fact, a recipe key, or one metric.
Result<IndexedKey> key_meant(const std::string& name, const std::vector<IndexedKey>& known) {
  if (is_fact(name)) return IndexedKey{false, name};
  std::vector<std::string> metrics, all;
  for (const IndexedKey& one : known) {
    if (!one.is_metric && one.name == name) return one;
    if (one.is_metric) metrics.push_back(one.name);
    all.push_back(one.name);
  }
  const std::vector<std::string> meant = metrics_meant(name, metrics);
  if (meant.size() == 1) return IndexedKey{true, meant.front()};
  return meant.empty() ? unknown_key(name, all) : ambiguous_key(name, meant);
}

Diagnostic warning(ErrorCode code, std::string message, std::string help) {
  return {.code = code,
          .where = {},
          .pointer = "",
          .message = std::move(message),
          .help = std::move(help),
          .severity = Severity::kWarning};
}

Diagnostic gone_runs(const fs::path& root, const std::vector<std::string>& gone) {
  std::string names;
  for (std::size_t i = 0; i < std::min(gone.size(), kNamedGone); ++i)
    names += (i == 0 ? "'" : ", '") + (root / gone[i]).lexically_normal().string() + "'";
  const bool is_one = gone.size() == 1;
  return warning(
      ErrorCode::kNoRun,
      (is_one ? "a run no longer exists" : std::to_string(gone.size()) + " runs no longer exist") +
          std::string(": ") + names + (gone.size() > kNamedGone ? " …" : ""),
      is_one ? "it was dropped from the index" : "they were dropped from the index");
}

/// The runs of one root, from its updated index.
class RootListing {
 public:
  RootListing(const ListingRequest& request, fs::path root, const fs::path& indexes,
              Diagnostics& warnings)
      : request_(request),
        root_(std::move(root)),
        warnings_(warnings),
        index_(whole_root(root_), indexes, warnings) {}

  /// Updates the index, and adds its keys to `known`.
  void refresh(std::vector<IndexedKey>& known) {
    if (request_.anew) index_.clear();
    const std::vector<IndexedKey> keys = whole([&] { return refreshed_keys(); });
    for (const IndexedKey& key : keys) {
      const auto is_same = [&](const IndexedKey& one) {
        return one.is_metric == key.is_metric && one.name == key.name;
      };
      if (std::ranges::none_of(known, is_same)) known.push_back(key);
    }
  }

  void add_to(RunListing& listing) {
    std::vector<ListedRun> runs = whole([&] { return read(listing.keys); });
    listing.runs.insert(listing.runs.end(), std::make_move_iterator(runs.begin()),
                        std::make_move_iterator(runs.end()));
  }

 private:
  /// Returns the result of `read`. If part of the index is damaged, rebuilds the index and calls
  /// `read` again.
  template <typename Read>
  auto whole(const Read& read) -> decltype(read()) {
    try {
      return read();
    } catch (const DatabaseError& error) {  // damage in part of the index that had not been read
                                            // yet
      warnings_.push_back(warning(ErrorCode::kDamagedRecord,
                                  "the index of the runs in '" + root_.string() + "' is damaged (" +
                                      error.what() + ") and will be rebuilt: '" +
                                      index_.file().string() + "'",
                                  "nothing is lost: the run folders contain all data"));
      index_.clear();
      refreshed_keys();
      return read();
    }
  }

  std::vector<IndexedKey> refreshed_keys() {
    if (request_.as_indexed) return index_.keys();
    const auto changes = index_.refresh([&](std::size_t runs) {
      if (request_.before_reading) request_.before_reading(root_.string(), runs);
    });
    std::vector<IndexedKey> keys = index_.keys();
    if (!changes.gone.empty()) warnings_.push_back(gone_runs(root_, changes.gone));
    if (changes.any() || request_.anew) store();
    return keys;
  }

  std::vector<ListedRun> read(const std::vector<IndexedKey>& keys) {
    std::vector<IndexedRun> rows = index_.runs();
    std::vector<ListedRun> runs;
    runs.reserve(rows.size());
    std::string below = (root_ / "x").lexically_normal().string();
    below.pop_back();
    for (IndexedRun& row : rows) {
      const std::string folder =
          row.folder == "." ? (root_ / row.folder).lexically_normal().string() : below + row.folder;
      row.entry.status = status_now(
          folder, std::move(row.entry.status));  // may change without any change in the folder
      runs.push_back({folder, std::move(row.entry), row.headline});
    }
    fill_values(index_, rows, runs, keys);
    return runs;
  }

  void store() {
    try {
      index_.save();
    } catch (const WriteError& error) {
      Diagnostic diagnostic = error.diagnostic();
      diagnostic.severity = Severity::kWarning;
      warnings_.push_back(std::move(diagnostic));
    } catch (const fs::filesystem_error& error) {
      Diagnostic diagnostic =
          write_diagnostic(index_.file(), error.code().value(), ErrorCode::kCannotCreate);
      diagnostic.severity = Severity::kWarning;
      warnings_.push_back(std::move(diagnostic));
    }
  }

  const ListingRequest& request_;
  const fs::path root_;
  Diagnostics& warnings_;
  RunIndex index_;
};

/// Sets the source of each evaluation to the name that the listing uses for that run.
void name_sources(std::vector<ListedRun>& runs) {
  std::map<fs::path, std::string> shown;
  for (const ListedRun& run : runs)
    if (!run.entry.source.empty()) shown[whole_root(run.entry.source)] = run.entry.source;
  for (const ListedRun& run : runs) {
    if (shown.empty()) return;
    const auto found = shown.find(whole_root(run.folder));
    if (found != shown.end()) found->second = run.folder;
  }
  for (ListedRun& run : runs)
    if (!run.entry.source.empty()) run.entry.source = shown[whole_root(run.entry.source)];
}

std::vector<fs::path> roots_of(const ListingRequest& request) {
  if (!request.folders.empty()) return request.folders;
  std::vector<fs::path> roots;
  std::error_code ignored;
  for (const fs::path& folder : {default_runs_folder(""), fs::path("multirun")})
    if (fs::is_directory(folder, ignored)) roots.push_back(folder);
  return roots;
}

}  // namespace

Result<RunListing> list_runs(const ListingRequest& request, const fs::path& indexes,
                             Diagnostics& warnings) {
  std::deque<RootListing> roots;
  std::vector<IndexedKey> known;
  std::set<fs::path> listed_roots;
  Diagnostics errors;
  for (const fs::path& root : roots_of(request)) {
    std::error_code ignored;
    if (!listed_roots.insert(whole_root(root)).second) continue;
    if (fs::is_directory(root, ignored))
      roots.emplace_back(request, root, indexes, warnings).refresh(known);
    else
      errors.push_back({ErrorCode::kNoRun,
                        {},
                        "",
                        "there is no folder '" + root.string() + "'",
                        "give a folder that contains runs"});
  }
  if (!errors.empty()) return errors;
  RunListing listing;
  for (const std::vector<std::string>& some : {request.filter.keys(), request.keys}) {
    for (const std::string& name : some) {
      auto key = known.empty() ? IndexedKey{false, name}
                               : key_meant(name, known);  // without runs there is nothing to report
      if (key) listing.keys.push_back(*std::move(key));
      else errors.insert(errors.end(), key.errors().begin(), key.errors().end());
    }
  }
  if (!errors.empty()) return errors;
  for (RootListing& root : roots) root.add_to(listing);
  listing.all = listing.runs.size();
  name_sources(listing.runs);
  for (ListedRun& run : listing.runs)
    for (std::size_t k = 0; k < listing.keys.size(); ++k)
      if (is_fact(listing.keys[k].name)) run.values[k] = fact(run, listing.keys[k].name);
  std::erase_if(listing.runs, [&](const ListedRun& run) {
    return !request.filter.takes(std::span(run.values).first(request.filter.keys().size()));
  });
  for (const ListedRun& run : listing.runs) {
    if (!run.entry.problem.empty())
      warnings.push_back(warning(
          ErrorCode::kDamagedRecord,
          "the record of '" + run.folder + "' is damaged: " + run.entry.problem,
          run.entry.status == "incomplete" ? "nothing is lost: remove it with `retort runs rm`"
                                           : "`retort runs show` shows what is left of it"));
  }
  return listing;
}

void read_again(ListedRun& run) {
  RunEntry entry = read_entry(run.folder);
  run.headline = entry.headline_value();
  entry.status = status_now(run.folder, std::move(entry.status));
  entry.source = std::move(run.entry.source);
  entry.settings.clear();
  entry.metrics.clear();
  run.entry = std::move(entry);
}

std::vector<std::string> listed_keys(const fs::path& indexes) {
  std::set<std::string> names(kFacts.begin(), kFacts.end());
  for (const fs::path& root : roots_of({})) {
    try {
      Diagnostics ignored;
      for (const IndexedKey& key : RunIndex(whole_root(root), indexes, ignored).keys())
        names.insert(key.name);
    } catch (const DatabaseError&) {  // `runs ls` reports the damage
    }
  }
  return {names.begin(), names.end()};
}

void sort_runs(RunListing& listing, std::size_t at, bool is_reversed) {
  const IndexedKey& key = listing.keys[at];
  const bool is_falling = is_reversed != (key.is_metric && !is_smaller_better(key.name));
  const auto is_before = [&](const ListedRun& a, const ListedRun& b) {
    const auto is_absent = [at](const ListedRun& run) {
      if (run.values[at].empty()) return true;
      const auto* number = std::get_if<double>(&run.values[at].front());
      return number && std::isnan(*number);
    };
    if (is_absent(a) || is_absent(b)) return !is_absent(a) && is_absent(b);
    return is_falling ? b.values[at] < a.values[at] : a.values[at] < b.values[at];
  };
  std::ranges::stable_sort(listing.runs, is_before);
}

void group_evaluations(RunListing& listing) {
  std::set<std::string> folders;
  for (const ListedRun& run : listing.runs) folders.insert(run.folder);
  std::map<std::string, std::vector<ListedRun>> evaluations;  // grouped by the run that they
                                                              // evaluated
  std::vector<ListedRun> others;
  for (ListedRun& run : listing.runs) {
    const bool is_grouped = folders.contains(run.entry.source) && run.entry.source != run.folder;
    (is_grouped ? evaluations[run.entry.source] : others).push_back(std::move(run));
  }
  listing.runs.clear();
  for (ListedRun& run : others) {
    const auto own = evaluations.find(run.folder);
    listing.runs.push_back(std::move(run));
    if (own != evaluations.end()) std::ranges::move(own->second, std::back_inserter(listing.runs));
  }
}

}  // namespace runner
