#include "runner/parent/record/run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/protocol/event.h"
#include "runner/shared/disk/file_system.h"
#include "runner/shared/disk/make_folders.h"
#include "runner/parent/record/dated_folder.h"
#include "runner/parent/record/training_history.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// What is copied when a run is resumed is its own: neither what a link points to, nor a pipe.
void require_own_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::is_regular_file(status) || !fs::exists(status)) return;
  throw WriteError(
      {ErrorCode::kDamagedRecord,
       {},
       "",
       "'" + path.string() + "' is no file of the run's own" + (fs::is_symlink(status) ? ", but a link" : ""),
       "put the file back, or remove what is there"});
}

}  // namespace

Result<fs::path> create_run_folder(const std::string& run_dir, const fs::path& base,
                                   std::chrono::system_clock::time_point now, Storage& storage) {
  return create_dated_folder({.given = run_dir,
                              .base = base,
                              .below = default_runs_folder(""),
                              .option = "run.dir",
                              .mark = RunLayout("").records(),
                              .what = "a run"},
                             now, storage);
}

RunFolder::RunFolder(fs::path folder, Storage& storage, MetricsFile metrics, Log log)
    : layout_(std::move(folder)),
      records_(layout_.records()),
      storage_(storage),
      metrics_(std::move(metrics)),
      log_(std::move(log)) {}

RunFolder::RunFolder(fs::path folder, Storage& storage, LogOptions log, Records records)
    : RunFolder(folder, storage, MetricsFile::make(RunLayout(folder).metrics(), storage),
                Log::to_file(NewFile(RunLayout(folder).log(), storage), log.level, log.limit)) {
  if (records == Records::kTogether) uncommitted_.emplace(storage);
  record_json(RunRecord::kMark, Json{{"schema", 1}, {"id", path().filename().string()}, {"build", build_id()}});
  if (!uncommitted_) sync_folder(path(), storage);  // what is appended to the two is not lost with their names
}

RunFolder RunFolder::reopen(fs::path folder, Storage& storage, LogOptions log) {
  const RunLayout layout(folder);
  for (const fs::path& path : {layout.metrics(), layout.log()}) require_own_file(path);
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

void RunFolder::commit() {
  if (!uncommitted_) return;
  AtomicFiles files = *std::exchange(uncommitted_, std::nullopt);
  files.commit({path()});  // what is appended to log and metrics is not lost with their names
}

void RunFolder::write(const fs::path& path, std::string_view text) {
  if (uncommitted_) uncommitted_->add(path, text);
  else write_atomically(path, text, storage_);
}

void RunFolder::record(std::string_view name, std::string_view text) { write(records_ / name, text); }

void RunFolder::record_json(std::string_view name, const Json& json) {
  record(name, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void RunFolder::record_history(const std::string& node, const Json& json) {
  write_atomically(layout_.node(node).training_metrics(),
                   json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", storage_);
}

double RunFolder::beginning_of(const std::string& node, std::span<const MetricLine> kept) const {
  const auto text = real_file_system().read(layout_.node(node).training_metrics(), 64 << 20);
  const Json json = text ? parse_json<Json>(*text) : Json();
  TrainingHistory history(0);  // so that the first epoch's seconds are its end
  for (const auto& [metric, time] : kept) history.see(metric, time);
  const Json times = json.is_object() ? json.value("epoch_times", Json()) : Json();
  const bool is_known = !history.epochs().empty() && times.is_array() && !times.empty() && times[0].is_number();
  return is_known ? history.epochs().front().seconds - times[0].get<double>() : kept.front().time;
}

void RunFolder::summary(const Json& summary) {
  write(layout_.summary(), summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace runner
