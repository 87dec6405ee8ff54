#include "runner/record/run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/protocol/event.h"
#include "runner/disk/file_system.h"
#include "runner/disk/make_folders.h"
#include "runner/record/training_history.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kPointer = "/run/dir";

Diagnostic cannot_create(const fs::path& path, int error) {
  Diagnostic diagnostic = write_diagnostic(path, error, ErrorCode::kCannotCreate);
  diagnostic.pointer = kPointer;
  return diagnostic;
}

Diagnostic taken(const fs::path& path) {
  const bool is_ours = fs::exists(RunLayout(path).records());
  return {ErrorCode::kRunFolderTaken,
          {},
          std::string(kPointer),
          "'" + path.string() + "' " + (is_ours ? "already contains a run" : "is not empty"),
          "choose another with run.dir, or leave run.dir out for a fresh one"};
}

/// Claims the empty folder `path`: of two runs that both found it empty, one makes .retort.
Result<fs::path> claim(const fs::path& path, Storage& storage) {
  const fs::path records = RunLayout(path).records();
  if (storage.make_folder(records) != 0) return errno == EEXIST ? taken(path) : cannot_create(records, errno);
  // The names of the run and of its record survive a power cut.
  sync_folder(path.parent_path(), storage);
  sync_folder(path, storage);
  return path;
}

Result<fs::path> create_given(const fs::path& path, Storage& storage) {
  if (storage.make_folder(path) == 0) return claim(path, storage);
  if (errno != EEXIST) return cannot_create(path, errno);
  std::error_code error;
  if (!fs::is_directory(path, error)) return cannot_create(path, EEXIST);
  const bool is_empty = fs::is_empty(path, error);
  if (error) return cannot_create(path, error.value());
  return is_empty ? claim(path, storage) : taken(path);
}

/// A folder in `day` that is called `time`, or time-1, time-2 … where that is taken.
Result<fs::path> create_in(const fs::path& day, const std::string& time, Storage& storage) {
  for (int suffix = 0;; ++suffix) {
    const fs::path path = day / (suffix == 0 ? time : time + "-" + std::to_string(suffix));
    if (storage.make_folder(path) == 0) return claim(path, storage);
    if (errno != EEXIST) return cannot_create(path, errno);
  }
}

std::string local_time(std::chrono::system_clock::time_point now, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

Result<fs::path> create_run_folder(const std::string& run_dir, const fs::path& base,
                                   std::chrono::system_clock::time_point now, Storage& storage) {
  const fs::path given = run_dir.empty() ? "" : (base / run_dir).lexically_normal();
  const fs::path day = default_runs_folder(base) / local_time(now, "%Y-%m-%d");
  try {
    make_folders(given.empty() ? day : given.parent_path(), storage);
    return given.empty() ? create_in(day, local_time(now, "%H-%M-%S"), storage) : create_given(given, storage);
  } catch (const fs::filesystem_error& error) {
    return cannot_create(given.empty() ? day : given, error.code().value());
  } catch (const WriteError& error) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.pointer = kPointer;
    return diagnostic;
  }
}

RunFolder::RunFolder(fs::path folder, Storage& storage, MetricsFile metrics, Log log)
    : layout_(std::move(folder)),
      records_(layout_.records()),
      storage_(storage),
      metrics_(std::move(metrics)),
      log_(std::move(log)) {}

RunFolder::RunFolder(fs::path folder, Storage& storage, LogOptions log)
    : RunFolder(folder, storage, MetricsFile::make(RunLayout(folder).metrics(), storage),
                Log::to_file(NewFile(RunLayout(folder).log(), storage), log.level, log.limit)) {
  record_json(RunRecord::kMark, Json{{"schema", 1}, {"id", path().filename().string()}, {"build", build_id()}});
  sync_folder(path(), storage);  // what is appended to the two from now on is not lost with their names
}

RunFolder RunFolder::reopen(fs::path folder, Storage& storage, LogOptions log) {
  const RunLayout layout(folder);
  MetricsFile metrics = MetricsFile::reopen(layout.metrics(), storage);
  // Copied, so that a line which was cut off by a kill is ended and a full disk is noticed before the work begins.
  AtomicFile file(layout.log(), storage);
  std::ifstream old(layout.log());
  std::size_t size = 0;
  for (std::string line; std::getline(old, line) && size < log.limit; size += line.size() + 1) file.append(line + "\n");
  RunFolder result(std::move(folder), storage, std::move(metrics),
                   Log::to_file(file.commit_and_release(), log.level, log.limit, size));
  for (int number = 1;; ++number) {
    const fs::path records = layout.resume(number);
    if (storage.make_folder(records) == 0) {
      sync_folder(result.records_, storage);
      result.records_ = records;
      return result;
    }
    if (errno != EEXIST) throw WriteError(write_diagnostic(records, errno, ErrorCode::kCannotCreate));
  }
}

void RunFolder::record(std::string_view name, std::string_view text) {
  write_atomically(records_ / name, text, storage_);
}

void RunFolder::record_json(std::string_view name, const Json& json) {
  record(name, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void RunFolder::record_history(const std::string& node, const Json& json) {
  write_atomically(layout_.node(node).training_metrics(),
                   json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", storage_);
}

double RunFolder::beginning_of(const std::string& node, std::span<const MetricLine> kept) const {
  const auto text = real_file_system().read(layout_.node(node).training_metrics(), 64 << 20);
  const Json json = text ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
  TrainingHistory history(0);  // so that the first epoch's seconds are its end
  for (const auto& [metric, time] : kept) history.see(metric, time);
  const Json times = json.is_object() ? json.value("epoch_times", Json()) : Json();
  const bool is_known = !history.epochs().empty() && times.is_array() && !times.empty() && times[0].is_number();
  return is_known ? history.epochs().front().seconds - times[0].get<double>() : kept.front().time;
}

void RunFolder::summary(const Json& summary) {
  write_atomically(layout_.summary(), summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", storage_);
}

}  // namespace runner
