#include "runner/parent/registry/run_index.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr int kIndexVersion = 2;  // incremented when the tables or the contents of entries change
constexpr std::size_t kReadTogether = 512;
constexpr std::size_t kRunsOfThread = 16;  // enough to justify one more thread

/// Reads the entries of some runs with one thread per processor.
std::vector<RunEntry> read_entries(const fs::path& root, const std::vector<FoundRun>& runs) {
  std::vector<RunEntry> entries(runs.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < runs.size(); i = next++)
      entries[i] = read_entry((root / runs[i].folder).lexically_normal());
  };
  std::vector<std::jthread> others;
  const std::size_t threads = std::min<std::size_t>(
      std::max(1u, std::thread::hardware_concurrency()), runs.size() / kRunsOfThread + 1);
  try {
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    // no more threads can be started; the existing ones will do the work
  }
  work();
  return entries;
}

std::string joined_tags(const std::vector<std::string>& tags) {
  std::string text;
  for (const std::string& tag : tags) text += (text.empty() ? "" : " ") + tag;
  return text;
}

std::vector<std::string> tags_from(const std::string& text) {
  std::vector<std::string> tags;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    tags.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return tags;
}

/// Inserts runs and their values into the index.
class RunWriter {
 public:
  explicit RunWriter(Database& database)
      : run_(database.prepare(
            "INSERT INTO runs(folder, stamp, recipe, status, started, seconds, "
            "device, smoke, tags, problem, headline, value, source, trained_by, monitor) VALUES "
            "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) RETURNING id")),
        key_(database.prepare("INSERT INTO keys(is_metric, name) VALUES (?,?) RETURNING id")),
        value_(
            database.prepare("INSERT OR REPLACE INTO settings(key, run, value) VALUES (?,?,?)")) {
    Statement keys = database.prepare("SELECT id, is_metric, name FROM keys");
    while (keys.step()) ids_[keys.integer(1) != 0][keys.text(2)] = keys.integer(0);
  }

  void write(const FoundRun& found, const RunEntry& entry) {
    run_.bind(0, found.folder)
        .bind(1, found.stamp)
        .bind(2, entry.recipe)
        .bind(3, entry.status)
        .bind(4, entry.started);
    run_.bind(5, entry.seconds)
        .bind(6, entry.device)
        .bind(7, std::int64_t{entry.smoke})
        .bind(8, joined_tags(entry.tags));
    run_.bind(9, entry.problem).bind(10, entry.headline);
    run_.bind(11, entry.headline_value());
    run_.bind(12, entry.source).bind(13, entry.trained_by).bind(14, entry.monitor);
    run_.step();
    const std::int64_t run = run_.integer(0);
    run_.run();
    for (const auto& [name, value] : entry.settings) {
      value_.bind(0, key(false, name)).bind(1, run);
      if (const auto* text = std::get_if<std::string>(&value)) value_.bind(2, *text).run();
      else value_.bind(2, std::get<double>(value)).run();
    }
    for (const auto& [name, value] : entry.metrics)
      value_.bind(0, key(true, name)).bind(1, run).bind(2, value).run();
  }

 private:
  std::int64_t key(bool is_metric, const std::string& name) {
    const auto [known, is_new] = ids_[is_metric].try_emplace(name, 0);
    if (is_new) {
      key_.bind(0, std::int64_t{is_metric}).bind(1, name).step();
      known->second = key_.integer(0);
      key_.run();
    }
    return known->second;
  }

  Statement run_, key_, value_;
  std::unordered_map<std::string, std::int64_t> ids_[2];
};

/// Returns a map from the folder of each run to its number in `column`.
std::unordered_map<std::string, std::int64_t> known_numbers(Database& database,
                                                            const std::string& column) {
  std::unordered_map<std::string, std::int64_t> known;
  Statement rows = database.prepare("SELECT folder, " + column + " FROM runs");
  while (rows.step()) known[rows.text(0)] = rows.integer(1);
  return known;
}

Diagnostic unusable(const fs::path& root, const fs::path& file, const std::string& why) {
  return {.code = ErrorCode::kDamagedRecord,
          .where = {},
          .pointer = "",
          .message = "the index of the runs in '" + root.string() + "' " + why +
                     ", and will be rebuilt: '" + file.string() + "'",
          .help = "nothing is lost: the run folders contain all data",
          .severity = Severity::kWarning};
}

}  // namespace

RunIndex::RunIndex(const fs::path& root, const fs::path& folder, Diagnostics& warnings)
    : root_(root),
      file_(folder.empty() ? fs::path()
                           : folder / (sha256(root.string()).substr(0, 32) + ".sqlite")) {
  try {
    if (auto stored = file_.empty() ? std::nullopt : Database::open(file_)) {
      database_ = *std::move(stored);
      Statement version = database_.prepare("PRAGMA user_version");
      version.step();
      const auto number = version.integer(0);
      version.run();
      is_stored_ = number == kIndexVersion;
      if (is_stored_) return;
      warnings.push_back(unusable(
          root_, file_,
          "has version " + std::to_string(number) + ", not " + std::to_string(kIndexVersion)));
    }
  } catch (const DatabaseError& error) {
    warnings.push_back(unusable(root_, file_, std::string("is damaged (") + error.what() + ")"));
  }
  clear();
}

void RunIndex::clear() {
  database_ = Database();
  is_stored_ = false;
  database_.run(
      "CREATE TABLE runs(id INTEGER PRIMARY KEY, folder TEXT UNIQUE NOT NULL, stamp INTEGER, "
      "recipe TEXT, status TEXT,"
      " started TEXT, seconds REAL, device TEXT, smoke INTEGER, tags TEXT, problem TEXT, headline "
      "TEXT, value REAL,"
      " source TEXT, trained_by TEXT, monitor TEXT);"
      "CREATE TABLE keys(id INTEGER PRIMARY KEY, is_metric INTEGER NOT NULL, name TEXT NOT NULL, "
      "UNIQUE(is_metric, name));"
      "CREATE TABLE settings(key INTEGER, run INTEGER, value, PRIMARY KEY(key, run)) WITHOUT ROWID;"
      "PRAGMA user_version = " +
      std::to_string(kIndexVersion));
}

/// Replaces the stored database with a copy in memory, so that database_ can be changed.
void RunIndex::own() {
  auto copy = Database::read(file_);
  if (!copy) clear();
  else database_ = *std::move(copy);
  is_stored_ = false;
}

void RunIndex::forget(std::int64_t run) {
  database_.prepare("DELETE FROM settings WHERE run = ? AND key IN (SELECT id FROM keys)")
      .bind(0, run)
      .run();
  database_.prepare("DELETE FROM runs WHERE id = ?").bind(0, run).run();
}

RunIndex::Changes RunIndex::refresh(const std::function<void(std::size_t)>& before_reading) {
  const auto stamps = known_numbers(database_, "stamp");
  const std::vector<FoundRun> found = scan_runs(root_, stamps);
  if (is_stored_) {
    if (found.size() == stamps.size() && std::ranges::all_of(found, &FoundRun::is_unchanged))
      return {};
    own();  // another process may have replaced the file with a newer one
    return refresh(before_reading);
  }
  auto ids = known_numbers(database_, "id");
  Changes changes;
  std::vector<FoundRun> changed;
  database_.run("BEGIN");
  for (const FoundRun& run : found) {
    if (!run.is_unchanged) changed.push_back(run);
    const auto old = ids.find(run.folder);
    if (old == ids.end()) continue;
    if (!run.is_unchanged) forget(old->second);
    ids.erase(old);
  }
  for (const auto& [folder, id] : ids) {
    forget(id);
    changes.gone.push_back(folder);
  }
  std::ranges::sort(changes.gone);
  changes.read = changed.size();
  if (before_reading && !changed.empty()) before_reading(changed.size());
  RunWriter writer(database_);
  for (std::size_t begin = 0; begin < changed.size(); begin += kReadTogether) {
    const std::size_t end = std::min(begin + kReadTogether, changed.size());
    const std::vector<FoundRun> some(changed.begin() + static_cast<std::ptrdiff_t>(begin),
                                     changed.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<RunEntry> entries = read_entries(root_, some);
    for (std::size_t i = 0; i < some.size(); ++i) writer.write(some[i], entries[i]);
  }
  database_.run("COMMIT");
  return changes;
}

void RunIndex::save(Storage& storage) {
  if (file_.empty()) return;
  fs::create_directories(file_.parent_path());
  // Another process may be writing the same file, so each one writes its own file and renames it.
  const std::string hidden = "." + file_.filename().string() + ".";
  remove_leftovers(file_.parent_path(), hidden, storage);
  const fs::path own = file_.parent_path() / (hidden + std::to_string(getpid()));
  write_atomically(own, database_.bytes(), storage);
  fs::rename(own, file_);
}

std::vector<IndexedRun> RunIndex::runs() {
  std::vector<IndexedRun> all;
  Statement rows = database_.prepare(
      "SELECT id, folder, recipe, status, started, seconds, device, smoke, tags, problem, "
      "headline, value, source, trained_by, monitor FROM runs ORDER BY folder");
  while (rows.step()) {
    IndexedRun run{.id = rows.integer(0), .folder = rows.text(1), .entry = {}, .headline = 0};
    run.entry.recipe = rows.text(2);
    run.entry.status = rows.text(3);
    run.entry.started = rows.text(4);
    run.entry.seconds = rows.number(5);
    run.entry.device = rows.text(6);
    run.entry.smoke = rows.integer(7) != 0;
    run.entry.tags = tags_from(rows.text(8));
    run.entry.problem = rows.text(9);
    run.entry.headline = rows.text(10);
    run.headline = rows.is_null(11) ? std::nan("") : rows.number(11);
    run.entry.source = rows.text(12);
    run.entry.trained_by = rows.text(13);
    run.entry.monitor = rows.text(14);
    all.push_back(std::move(run));
  }
  return all;
}

std::vector<IndexedKey> RunIndex::keys() {
  std::vector<IndexedKey> all;
  Statement rows = database_.prepare("SELECT is_metric, name FROM keys ORDER BY is_metric, name");
  while (rows.step()) all.push_back({rows.integer(0) != 0, rows.text(1)});
  return all;
}

std::vector<std::pair<std::int64_t, RunValue>> RunIndex::values(const IndexedKey& key) {
  std::vector<std::pair<std::int64_t, RunValue>> all;
  Statement rows = database_.prepare(
      "SELECT run, value FROM settings WHERE key = (SELECT id FROM keys WHERE is_metric = ? AND "
      "name = ?) ORDER BY run");
  rows.bind(0, std::int64_t{key.is_metric}).bind(1, key.name);
  while (rows.step()) {
    if (rows.is_text(1)) all.emplace_back(rows.integer(0), rows.text(1));
    else all.emplace_back(rows.integer(0), rows.is_null(1) ? std::nan("") : rows.number(1));
  }
  return all;
}

fs::path run_index_folder() {
  const fs::path nodes = node_index_folder();
  return nodes.empty() ? fs::path() : nodes.parent_path() / "runs";
}

namespace {

constexpr int kLevels = 3;  // multirun/<date>/<time>/<number>
/// In nanoseconds. On file systems with coarse clocks, a folder changed this recently may change
/// again without getting a new stamp.
constexpr std::int64_t kUnresolved = 2'000'000'000;

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

class Scan {
 public:
  Scan(const std::unordered_map<std::string, std::int64_t>& known, std::vector<FoundRun>& found)
      : known_(known), found_(found) {}

  void root(const std::filesystem::path& path) {
    Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    if (!folder.is_open() || ::fstat(*folder, &status) != 0) return;
    if (is_run(*folder, ".")) add(".", stamp_of(*folder, ".", status));
    else below(std::move(folder), "", 1);
  }

 private:
  /// Finds the runs in an open folder at the path `prefix` below the root.
  void below(Descriptor folder, const std::string& prefix, int level) {
    const int number = ::dup(*folder);
    const std::unique_ptr<DIR, CloseListing> listing(number < 0 ? nullptr : ::fdopendir(number));
    if (!listing) return;
    while (const dirent* entry = ::readdir(listing.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
        continue;
      struct stat status {};
      if (::fstatat(*folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
          !S_ISDIR(status.st_mode))
        continue;
      const std::string path = prefix + name;
      const auto known = known_.find(path);
      const bool may_be_run = known != known_.end() || is_run(*folder, name);
      const std::int64_t stamp = may_be_run ? stamp_of(*folder, name, status) : 0;
      const bool is_same = known != known_.end() && known->second == stamp && stamp != 0;
      if (is_same || (may_be_run && is_run(*folder, name))) {
        add(path, stamp);
      } else if (level < kLevels) {
        Descriptor next(
            ::openat(*folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (next.is_open()) below(std::move(next), path + "/", level + 1);
      }
    }
  }

  bool is_run(int folder, const std::string& name) const {
    struct stat status {};
    return ::fstatat(folder, (name + "/" + mark_).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(status.st_mode);
  }

  static std::string resumed_with(int number) {
    return (RunLayout("").resume(number) / RunRecord::kRecipe).string();
  }

  /// Returns the stamp of the run `name`; `status` is the status of its folder. The stamp depends
  /// on when the names in the folder last changed and on the state of the files from which an entry
  /// is read, which may have been edited in place.
  std::int64_t stamp_of(int folder, const std::string& name, const struct stat& status) const {
    const std::int64_t time = time_of(status.st_mtim);
    if (time >= now_ - kUnresolved) return 0;
    std::uint64_t stamp = 14695981039346656037u;  // the offset basis of FNV-1a
    const auto add = [&](std::uint64_t number) {
      for (int byte = 0; byte < 8; ++byte, number >>= 8)
        stamp = (stamp ^ (number & 255)) * 1099511628211u;
    };
    add(static_cast<std::uint64_t>(time));
    const auto look = [&](const std::string& path) {
      struct stat file {};
      if (::fstatat(folder, (name + "/" + path).c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
      for (const std::uint64_t number :
           {std::uint64_t{file.st_ino}, static_cast<std::uint64_t>(file.st_size),
            static_cast<std::uint64_t>(time_of(file.st_mtim)),
            static_cast<std::uint64_t>(time_of(file.st_ctim))})
        add(number);
      return true;
    };
    for (const std::string& path : files_) add(look(path));
    for (int number = 1; look(resumed_with(number)); ++number) {
    }
    return stamp == 0 ? 1 : static_cast<std::int64_t>(stamp);
  }

  static std::int64_t time_of(const struct timespec& time) {
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
  }

  void add(const std::string& path, std::int64_t stamp) {
    const auto known = known_.find(path);
    found_.push_back({path, stamp, stamp != 0 && known != known_.end() && known->second == stamp});
  }

  const std::unordered_map<std::string, std::int64_t>& known_;
  std::vector<FoundRun>& found_;
  // Paths below a run's folder, as strings: joining paths would take half the time of a scan.
  const RunLayout layout_{""};
  const std::string mark_ = layout_.mark().string();
  const std::vector<std::string> files_ = {layout_.summary().string(),
                                           layout_.tags().string(),
                                           layout_.records().string(),
                                           mark_,
                                           (layout_.records() / RunRecord::kRecipe).string(),
                                           (layout_.records() / RunRecord::kSource).string()};
  const std::int64_t now_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
};

}  // namespace

std::vector<FoundRun> scan_runs(const std::filesystem::path& root,
                                const std::unordered_map<std::string, std::int64_t>& known) {
  std::vector<FoundRun> found;
  Scan(known, found).root(root);
  std::ranges::sort(found, {}, &FoundRun::folder);
  return found;
}

}  // namespace runner
