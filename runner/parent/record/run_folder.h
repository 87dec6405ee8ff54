#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/disk/storage.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/record/histograms_file.h"
#include "runner/shared/record/log.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {

/// Creates the folder for a new run and claims it, so that no two runs ever share one. The folder
/// is `run_dir`, which must be absent or empty. If `run_dir` is an empty string, the folder is
/// outputs/<date>/<time> below `base` (local time of `now`; -1, -2 … if taken). Fails with
/// kRunFolderTaken, kCannotCreate or kDiskFull at /run/dir.
Result<std::filesystem::path> create_run_folder(const std::string& run_dir,
                                                const std::filesystem::path& base,
                                                std::chrono::system_clock::time_point now,
                                                Storage& storage = disk());

/// What a run's log.txt contains.
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::size_t limit = 64 << 20;  ///< number of bytes to keep; anything beyond that is only counted
};

/// Opens a log that continues after the lines of the file at `path`, if there is one. Throws
/// WriteError.
Log continued_log(const std::filesystem::path& path, Storage& storage, LogOptions options);

/// The record of one run (run_layout.h). Only a RunFolder writes the files in the run's folder
/// outside nodes/ and the training_metrics.json files inside nodes/. Throws WriteError.
class RunFolder {
 public:
  /// Begins the record of a new run in a `folder` from create_run_folder(). `storage` is borrowed.
  /// Records reach the disk immediately or, with kTogether, when commit() is called, which halves
  /// the cost.
  enum class Records { kAtOnce, kTogether };
  explicit RunFolder(std::filesystem::path folder, Storage& storage = disk(), LogOptions log = {},
                     Records records = Records::kAtOnce);
  /// Reopens the run in `folder`; no other process may be working on it (RunLock).
  static RunFolder reopen(std::filesystem::path folder, Storage& storage = disk(),
                          LogOptions log = {});

  const std::filesystem::path& path() const { return layout_.folder(); }

  /// Flushes everything pending to disk, including the summary. From then on, records reach the
  /// disk immediately.
  void commit();

  /// Writes one of the files of RunRecord to .retort/, or to .retort/resume-N/ for a resumed run.
  void record(std::string_view name, std::string_view text);
  /// Like record(), in a subfolder.
  void record_in(std::string_view folder, std::string_view name, std::string_view text);
  void record_json(std::string_view name, const nlohmann::ordered_json& json);
  /// Writes the training_metrics.json of `node`; the worker must have created the node's folder.
  void record_history(const std::string& node, const nlohmann::ordered_json& json);
  /// Returns when a training node began, in seconds since the run's start. `kept` are its metrics,
  /// at least one. Uses the duration of the first epoch in its training_metrics.json or, if there
  /// is none, the time of its first metric.
  double beginning_of(const std::string& node, std::span<const MetricLine> kept) const;
  MetricsFile& metrics() { return metrics_; }
  HistogramsFile& histograms() { return histograms_; }
  /// log.txt.
  Log& log() { return log_; }
  void summary(const nlohmann::ordered_json& summary);

 private:
  RunFolder(std::filesystem::path folder, Storage& storage, MetricsFile metrics, Log log);
  void write(const std::filesystem::path& path, std::string_view text);

  RunLayout layout_;
  std::filesystem::path records_;
  Storage& storage_;
  std::optional<AtomicFiles> uncommitted_;  // nullopt: everything is written at once
  MetricsFile metrics_;
  HistogramsFile histograms_;
  Log log_;
};

/// Where to create the folder for a run or a sweep.
struct FolderRequest {
  /// The requested folder; empty: `below`/<date>/<time> (local time; -1, -2 … if taken).
  std::string given;
  std::filesystem::path base;   ///< the folder against which relative paths are resolved
  std::filesystem::path below;  ///< the parent of dated folders, "outputs"
  std::string option;           ///< the option that sets `given`, "run.dir"
  std::filesystem::path mark;   ///< the subfolder that claims the folder, ".retort"
  std::string what;             ///< for messages: "a run"
};

/// Creates the folder, which must be absent or empty, and claims it, so that no two runs or sweeps
/// ever share one. Fails with kRunFolderTaken, kCannotCreate or kDiskFull at the option.
Result<std::filesystem::path> create_dated_folder(const FolderRequest& request,
                                                  std::chrono::system_clock::time_point now,
                                                  Storage& storage = disk());

/// A training node's measurements at the end of each epoch, as stored in
/// nodes/<id>/training_metrics.json:
///
///   {"train_losses": […], "val_losses": […], "val_accuracies": […], "epoch_times": […]}
///
/// Accuracies are between 0 and 1. Times are seconds of work, including validation; if a run was
/// stopped, they include repeated work. An epoch without validation gets null; if there was no
/// validation at all, the list is empty.
class TrainingHistory {
 public:
  struct Epoch {
    std::int64_t step = 0;  ///< the last step of the epoch
    double train_loss = 0;
    std::optional<double> validation_loss = {}, validation_accuracy = {};
    double seconds = 0;
  };

  /// `began` is when the training node began, in seconds after the run's start.
  explicit TrainingHistory(double began) : until_(began) {}

  /// Adds a metric of the training node, measured `seconds` after the run's start. Returns true if
  /// the metric belongs to an epoch.
  bool see(const NodeMetric& metric, double seconds);

  const std::vector<Epoch>& epochs() const { return epochs_; }
  nlohmann::ordered_json to_json() const;

 private:
  std::vector<Epoch> epochs_;
  double until_;  // end time of the last epoch in epochs_
};

}  // namespace runner
