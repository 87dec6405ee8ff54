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
#include "runner/shared/record/log.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {

/// Creates the folder of a new run and claims it, so that no two runs ever share one. The folder is
/// `run_dir`, which must be absent or empty. If `run_dir` is empty text, it is
/// outputs/<date>/<time> below `base` (local time of `now`; -1, -2 … when taken). Fails with
/// kRunFolderTaken, kCannotCreate or kDiskFull at /run/dir.
Result<std::filesystem::path> create_run_folder(const std::string& run_dir,
                                                const std::filesystem::path& base,
                                                std::chrono::system_clock::time_point now,
                                                Storage& storage = disk());

/// What a run's log.txt holds.
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::size_t limit = 64 << 20;  ///< bytes; later ones are counted and not kept
};

/// A log that goes on after the lines of the file at `path`, if there is one. Throws WriteError.
Log continued_log(const std::filesystem::path& path, Storage& storage, LogOptions options);

/// The record of one run (run_layout.h). It is the only writer of everything in the run's folder
/// outside nodes/, and of the training_metrics.json in there. Throws WriteError.
class RunFolder {
 public:
  /// A new run in a `folder` from create_run_folder(). `storage` is borrowed. Records reach the
  /// disk at once or, with kTogether, from commit() on, at half the cost.
  enum class Records { kAtOnce, kTogether };
  explicit RunFolder(std::filesystem::path folder, Storage& storage = disk(), LogOptions log = {},
                     Records records = Records::kAtOnce);
  /// Opens the run in `folder` again; no other process may work on it (RunLock).
  static RunFolder reopen(std::filesystem::path folder, Storage& storage = disk(),
                          LogOptions log = {});

  const std::filesystem::path& path() const { return layout_.folder(); }

  /// Flushes everything pending to the disk, including the summary; from now on records reach the
  /// disk at once.
  void commit();

  /// Writes one of the files of RunRecord to .retort/, or to .retort/resume-N/ for a resumed run.
  void record(std::string_view name, std::string_view text);
  /// The same in a folder there.
  void record_in(std::string_view folder, std::string_view name, std::string_view text);
  void record_json(std::string_view name, const nlohmann::ordered_json& json);
  /// Writes training_metrics.json of `node`, whose folder the worker has created.
  void record_history(const std::string& node, const nlohmann::ordered_json& json);
  /// When a training began whose metrics are `kept`, at least one, in seconds after the run's
  /// start. Uses the duration of the first epoch in its training_metrics.json, or else the time of
  /// its first metric.
  double beginning_of(const std::string& node, std::span<const MetricLine> kept) const;
  MetricsFile& metrics() { return metrics_; }
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
  Log log_;
};

/// Where to create the folder of a run or a sweep.
struct FolderWish {
  std::string
      given;  ///< its folder; empty: `below`/<date>/<time> (local time; -1, -2 … when taken)
  std::filesystem::path base;   ///< base of relative paths
  std::filesystem::path below;  ///< "outputs"
  std::string option;           ///< the option that sets `given`, "run.dir"
  std::filesystem::path mark;   ///< the subfolder whose creation claims it, ".retort"
  std::string what;             ///< "a run"
};

/// Creates that folder, which must be absent or empty, and claims it, so that no two ever share
/// one. Fails with kRunFolderTaken, kCannotCreate or kDiskFull at the option.
Result<std::filesystem::path> create_dated_folder(const FolderWish& wish,
                                                  std::chrono::system_clock::time_point now,
                                                  Storage& storage = disk());

/// What a training measured at the end of each epoch, as stored in
/// nodes/<id>/training_metrics.json:
///
///   {"train_losses": […], "val_losses": […], "val_accuracies": […], "epoch_times": […]}
///
/// The accuracies lie between 0 and 1. The times are seconds of work, with validation; for a run
/// that was stopped, they include what had to be repeated. An epoch without validation has null;
/// without any validation, the list is empty.
class TrainingHistory {
 public:
  struct Epoch {
    std::int64_t step = 0;  ///< the last
    double train_loss = 0;
    std::optional<double> validation_loss = {}, validation_accuracy = {};
    double seconds = 0;
  };

  /// `began`: when the training began, in seconds after the run's start.
  explicit TrainingHistory(double began) : until_(began) {}

  /// Adds a metric of the training, measured `seconds` after the run's start. True if it is a
  /// number of an epoch.
  bool see(const NodeMetric& metric, double seconds);

  const std::vector<Epoch>& epochs() const { return epochs_; }
  nlohmann::ordered_json to_json() const;

 private:
  std::vector<Epoch> epochs_;
  double until_;  // the end of the last epoch in epochs_
};

}  // namespace runner
