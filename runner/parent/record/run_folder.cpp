#include "runner/parent/record/run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/text/date.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// Throws if `path` is a link, a pipe or anything else that is not a regular file. Does nothing if
/// nothing exists there.
void require_own_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::is_regular_file(status) || !fs::exists(status)) return;
  throw WriteError({ErrorCode::kDamagedRecord,
                    {},
                    "",
                    "'" + path.string() + "' is not a file of the run itself" +
                        (fs::is_symlink(status) ? ", but a link" : ""),
                    "restore the file, or remove what is there"});
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
      histograms_(layout_.histograms(), storage),
      log_(std::move(log)) {}

RunFolder::RunFolder(fs::path folder, Storage& storage, LogOptions log, Records records)
    : RunFolder(folder, storage, MetricsFile::make(RunLayout(folder).metrics(), storage),
                Log::to_file(NewFile(RunLayout(folder).log(), storage), log.level, log.limit)) {
  if (records == Records::kTogether) uncommitted_.emplace(storage);
  record_json(RunRecord::kMark,
              Json{{"schema", 1}, {"id", path().filename().string()}, {"build", build_id()}});
  if (!uncommitted_)
    sync_folder(path(), storage);  // so that file names are on disk too, not just what is appended
}

Log continued_log(const fs::path& path, Storage& storage, LogOptions options) {
  // The old log is copied so that a line cut off by a kill gets its newline, and so that a full
  // disk is noticed before work begins.
  AtomicFile file(path, storage);
  std::ifstream old = open_regular(path);
  std::size_t size = 0;
  for (std::string line; std::getline(old, line) && size < options.limit; size += line.size() + 1)
    file.append(line + "\n");
  return Log::to_file(file.commit_and_release(), options.level, options.limit, size);
}

RunFolder RunFolder::reopen(fs::path folder, Storage& storage, LogOptions log) {
  const RunLayout layout(folder);
  for (const fs::path& path : {layout.metrics(), layout.histograms(), layout.log()})
    require_own_file(path);
  MetricsFile metrics = MetricsFile::reopen(layout.metrics(), storage);
  RunFolder result(std::move(folder), storage, std::move(metrics),
                   continued_log(layout.log(), storage, log));
  for (int number = 1;; ++number) {
    const fs::path records = layout.resume(number);
    if (storage.make_folder(records) == 0) {
      sync_folder(result.records_, storage);
      result.records_ = records;
      return result;
    }
    if (errno != EEXIST)
      throw WriteError(write_diagnostic(records, errno, ErrorCode::kCannotCreate));
  }
}

void RunFolder::commit() {
  if (!uncommitted_) return;
  AtomicFiles files = *std::exchange(uncommitted_, std::nullopt);
  files.commit({path()});  // so that file names are on disk too, not just what is appended
}

void RunFolder::write(const fs::path& path, std::string_view text) {
  if (uncommitted_) uncommitted_->add(path, text);
  else write_atomically(path, text, storage_);
}

void RunFolder::record(std::string_view name, std::string_view text) {
  write(records_ / name, text);
}

void RunFolder::record_in(std::string_view folder, std::string_view name, std::string_view text) {
  const fs::path path = records_ / folder;
  if (storage_.make_folder(path) != 0 && errno != EEXIST)
    throw WriteError(write_diagnostic(path, errno, ErrorCode::kCannotCreate));
  write(path / name, text);
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
  const Json json = text ? parse_json<Json>(*text) : Json();
  TrainingHistory history(0);  // starts at 0, so the `seconds` of the first epoch are its end time
  for (const auto& [metric, time] : kept) history.see(metric, time);
  const Json times = json.is_object() ? json.value("epoch_times", Json()) : Json();
  const bool is_known =
      !history.epochs().empty() && times.is_array() && !times.empty() && times[0].is_number();
  return is_known ? history.epochs().front().seconds - times[0].get<double>() : kept.front().time;
}

void RunFolder::summary(const Json& summary) {
  write(layout_.summary(), summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

namespace {

namespace fs = std::filesystem;

/// Creates and claims a folder.
class DatedFolder {
 public:
  DatedFolder(const FolderRequest& request, Storage& storage)
      : request_(request), storage_(storage) {}

  Result<fs::path> given(const fs::path& path) const {
    if (storage_.make_folder(path) == 0) return claim(path);
    if (errno != EEXIST) return cannot_create(path, errno);
    std::error_code error;
    if (!fs::is_directory(path, error)) return cannot_create(path, EEXIST);
    const bool is_empty = fs::is_empty(path, error);
    if (error) return cannot_create(path, error.value());
    return is_empty ? claim(path) : taken(path);
  }

  /// Creates a folder in `day` named `time`, or time-1, time-2 … if that is taken.
  Result<fs::path> dated(const fs::path& day, const std::string& time) const {
    for (int suffix = 0;; ++suffix) {
      const fs::path path = day / (suffix == 0 ? time : time + "-" + std::to_string(suffix));
      if (storage_.make_folder(path) == 0) return claim(path);
      if (errno != EEXIST) return cannot_create(path, errno);
    }
  }

  Diagnostic cannot_create(const fs::path& path, int error) const {
    Diagnostic diagnostic = write_diagnostic(path, error, ErrorCode::kCannotCreate);
    if (!request_.given.empty()) diagnostic.pointer = pointer();
    return diagnostic;
  }

  std::string pointer() const {
    std::string result = "/" + request_.option;
    std::ranges::replace(result, '.', '/');
    return result;
  }

 private:
  /// Claims the empty folder `path`. If two processes find it empty, only one of them can create
  /// the mark.
  Result<fs::path> claim(const fs::path& path) const {
    const fs::path mark = path / request_.mark;
    if (storage_.make_folder(mark) != 0)
      return errno == EEXIST ? taken(path) : cannot_create(mark, errno);
    // Makes the names of the folder and its mark survive a power failure.
    sync_folder(path.parent_path(), storage_);
    sync_folder(path, storage_);
    return path;
  }

  Result<fs::path> taken(const fs::path& path) const {
    const bool is_ours = fs::exists(path / request_.mark);
    return Diagnostic{ErrorCode::kRunFolderTaken,
                      {},
                      pointer(),
                      "'" + path.string() + "' " +
                          (is_ours ? "already contains " + request_.what : "is not empty"),
                      "choose another with " + request_.option + ", or leave " + request_.option +
                          " out to get a new one"};
  }

  const FolderRequest& request_;
  Storage& storage_;
};

}  // namespace

Result<fs::path> create_dated_folder(const FolderRequest& request,
                                     std::chrono::system_clock::time_point now, Storage& storage) {
  const DatedFolder folder(request, storage);
  const fs::path given =
      request.given.empty() ? "" : (request.base / request.given).lexically_normal();
  const fs::path day = request.base / request.below / local_time(now, "%Y-%m-%d");
  try {
    make_folders(given.empty() ? day : given.parent_path(), storage);
    return given.empty() ? folder.dated(day, local_time(now, "%H-%M-%S")) : folder.given(given);
  } catch (const fs::filesystem_error& error) {
    return folder.cannot_create(given.empty() ? day : given, error.code().value());
  } catch (const WriteError& error) {
    Diagnostic diagnostic = error.diagnostic();
    diagnostic.pointer = folder.pointer();
    return diagnostic;
  }
}

using Json = nlohmann::ordered_json;

bool TrainingHistory::see(const NodeMetric& metric, double seconds) {
  if (metric.name == "train/epoch_loss") {
    epochs_.push_back({metric.step, metric.value});
  } else {
    // Validations at individual steps do not belong to an epoch.
    if (epochs_.empty() || epochs_.back().step != metric.step) return false;
    if (metric.name == "validation/loss") epochs_.back().validation_loss = metric.value;
    else if (metric.name == "validation/accuracy")
      epochs_.back().validation_accuracy = metric.value;
    else return false;
  }
  epochs_.back().seconds += seconds - until_;
  until_ = seconds;
  return true;
}

Json TrainingHistory::to_json() const {
  const auto list = [&](const auto& value_of) {
    Json values = Json::array();
    bool has_any = false;
    for (const Epoch& epoch : epochs_) {
      const std::optional<double> value = value_of(epoch);
      values.push_back(value ? number_json(*value) : Json(nullptr));
      has_any |= value.has_value();
    }
    return has_any ? values : Json::array();
  };
  return {
      {"train_losses", list([](const Epoch& epoch) { return std::optional(epoch.train_loss); })},
      {"val_losses", list([](const Epoch& epoch) { return epoch.validation_loss; })},
      {"val_accuracies", list([](const Epoch& epoch) { return epoch.validation_accuracy; })},
      {"epoch_times", list([](const Epoch& epoch) { return std::optional(epoch.seconds); })}};
}

}  // namespace runner
