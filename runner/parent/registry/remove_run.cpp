#include "runner/parent/registry/remove_run.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestMark = 1 << 20;

bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_own_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(path, ignored));
}

bool is_own_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

/// Returns the absolute path of the folder without a trailing slash.
fs::path whole_path(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

bool has_mark(const fs::path& folder) {
  const RunLayout layout(folder);
  if (!is_own_folder(layout.records()) || !is_own_file(layout.mark())) return false;
  const auto text = real_file_system().read(layout.mark(), kLargestMark);
  const auto json = text ? parse_json<nlohmann::json>(*text) : nlohmann::json();
  return json.is_object() && json.value("schema", nlohmann::json()) == 1;
}

/// True if the folder contains nothing but what remove_run() removes last.
bool is_rest_of_run(const fs::path& folder) {
  const fs::path records = RunLayout(folder).records();
  const std::vector<std::string> names = real_file_system().list(folder);
  return names.empty() || (names.size() == 1 && folder / names[0] == records &&
                           is_own_folder(records) && real_file_system().list(records).empty());
}

/// True if Retort writes a file or folder with this name, other than the record, into a run's
/// folder.
bool is_written_by_us(std::string name) {
  if (name.ends_with(".part")) name.resize(name.size() - 5);  // a file left by a kill
  const RunLayout layout("");
  const fs::path ours[] = {layout.metrics(),     layout.histograms(),
                           layout.log(),         layout.summary(),
                           layout.tags(),        layout.analysis(),
                           layout.tensorboard(), layout.report(true),
                           layout.report(false), layout.exported("").parent_path(),
                           layout.nodes()};
  return std::ranges::find(ours, fs::path(name)) != std::end(ours);
}

std::uintmax_t bytes_below(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (is_own_file(entry->path())) bytes += fs::file_size(entry->path(), ignored);
  }
  return bytes;
}

Diagnostic refused(ErrorCode code, std::string message, std::string help) {
  return {code, {}, "", std::move(message), std::move(help)};
}

/// Returns the error for the first path below `path`, or else `path` itself, that could not be
/// removed.
Diagnostic cannot_remove(const fs::path& path, Storage& storage) {
  fs::path stuck = path;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    if (!is_own_folder(entry->path())) stuck = entry->path();
  storage.remove(stuck);
  return refused(
      ErrorCode::kCannotWrite, "cannot remove '" + stuck.string() + "': " + std::strerror(errno),
      "the remaining files still count as a run; fix the problem, then remove the run again");
}

}  // namespace

Result<RemovableRun> removable_run(const fs::path& folder, Lease::Options options) {
  const std::string shown = "'" + folder.string() + "'";
  if (std::ranges::find(folder, fs::path("..")) != folder.end()) {
    return refused(ErrorCode::kUsage, shown + " contains '..'", "give the run's folder without it");
  }
  const fs::path path = whole_path(folder);
  if (!is_present(path))
    return refused(ErrorCode::kNoRun, "there is no folder " + shown, "`retort runs ls` lists runs");
  if (!is_own_folder(path)) {
    return refused(ErrorCode::kNoRun, shown + " is a link or a file, not a folder",
                   "give the folder of the run itself");
  }
  if (!has_mark(path) && !is_rest_of_run(path)) {
    return refused(ErrorCode::kNoRun, shown + " has no record of a run, so it is not removed",
                   "give the folders of runs, one by one: `retort runs ls` lists them");
  }
  std::error_code ignored;
  fs::create_directory(RunLayout(path).records(),
                       ignored);  // a killed removal may have left no folder to lock
  auto lock = RunLock::take(path, std::move(options));
  if (!lock) return lock.errors();
  return RemovableRun{folder, bytes_below(path), *std::move(lock)};
}

Result<std::vector<std::string>> remove_run(const RemovableRun& run, Storage& storage) {
  const fs::path path = whole_path(run.folder);
  const RunLayout layout(path);
  std::vector<std::string> others;
  const auto remove_or_report = [&](const fs::path& one) -> Diagnostics {
    remove_all(one, storage);
    if (is_present(one)) return {cannot_remove(one, storage)};
    return {};
  };
  for (const std::string& name : real_file_system().list(path)) {
    if (path / name == layout.records()) continue;
    if (!is_written_by_us(name)) others.push_back(name);
    else if (const Diagnostics errors = remove_or_report(path / name); !errors.empty())
      return errors;
  }
  for (const std::string& name : real_file_system().list(layout.records())) {
    if (layout.records() / name == layout.mark()) continue;
    if (const Diagnostics errors = remove_or_report(layout.records() / name); !errors.empty())
      return errors;
  }
  if (const Diagnostics errors = remove_or_report(layout.records()); !errors.empty()) return errors;
  if (others.empty() && storage.remove(path) != 0) return Diagnostics{cannot_remove(path, storage)};
  return others;
}

}  // namespace runner
