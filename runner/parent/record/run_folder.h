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

/// Makes the folder of a new run and claims it, so that no two runs ever share one: `run_dir`,
/// which must be absent or empty, or where it is empty text outputs/<date>/<time> below `base`
/// (local time of `now`; -1, -2 … when taken). kRunFolderTaken, kCannotCreate or kDiskFull at
/// /run/dir when that does not work.
Result<std::filesystem::path> create_run_folder(const std::string& run_dir,
                                                const std::filesystem::path& base,
                                                std::chrono::system_clock::time_point now,
                                                Storage& storage = disk());

/// What of a run its log.txt holds.
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::size_t limit = 64 << 20;  ///< bytes; what comes after them is counted and not kept
};

/// The record of one run (run_layout.h): the only writer of everything in its folder outside
/// nodes/, and of the training_metrics.json in there. Throws WriteError.
class RunFolder {
 public:
  /// A new run in a `folder` from create_run_folder(). `storage` is borrowed. What is recorded is
  /// on the disk at once or, `together`, from commit() on, at half the price.
  enum class Records { kAtOnce, kTogether };
  explicit RunFolder(std::filesystem::path folder, Storage& storage = disk(), LogOptions log = {},
                     Records records = Records::kAtOnce);
  /// The run in `folder` again, which nobody else may be at work on (run_lock.h).
  static RunFolder reopen(std::filesystem::path folder, Storage& storage = disk(),
                          LogOptions log = {});

  const std::filesystem::path& path() const { return layout_.folder(); }

  /// Puts what has waited for it on the disk, the summary too; from now on everything is there at
  /// once.
  void commit();

  /// A file of .retort/, one of RunRecord; of a run that was resumed, of .retort/resume-N/.
  void record(std::string_view name, std::string_view text);
  void record_json(std::string_view name, const nlohmann::ordered_json& json);
  /// training_metrics.json of `node`, whose folder the worker has made.
  void record_history(const std::string& node, const nlohmann::ordered_json& json);
  /// When a training began whose metrics are `kept`, at least one, in seconds after the run's
  /// start: by what its training_metrics.json says that the first epoch took, or else with its
  /// first metric.
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
  std::optional<AtomicFiles> uncommitted_;  // nullopt: everything at once
  MetricsFile metrics_;
  Log log_;
};

/// Where a run or a sweep is to go.
struct FolderWish {
  std::string
      given;  ///< its folder; empty: `below`/<date>/<time> (local time; -1, -2 … when taken)
  std::filesystem::path base;   ///< relative paths stand here
  std::filesystem::path below;  ///< "outputs"
  std::string option;           ///< that `given` comes from, "run.dir"
  std::filesystem::path mark;   ///< the folder in it whose making claims it, ".retort"
  std::string what;             ///< "a run"
};

/// Makes that folder, which must be absent or empty, and claims it, so that no two ever share one.
/// kRunFolderTaken, kCannotCreate or kDiskFull at the option when that does not work.
Result<std::filesystem::path> create_dated_folder(const FolderWish& wish,
                                                  std::chrono::system_clock::time_point now,
                                                  Storage& storage = disk());

/// What a training measured at the end of each epoch, as nodes/<id>/training_metrics.json holds it:
///
///   {"train_losses": […], "val_losses": […], "val_accuracies": […], "epoch_times": […]}
///
/// The accuracies lie between 0 and 1, the times are seconds of work, with validation; of a run
/// that was stopped, also what had to be done again. An epoch without validation has null; without
/// any, the list is empty.
class TrainingHistory {
 public:
  struct Epoch {
    std::int64_t step = 0;  ///< the last
    double train_loss = 0;
    std::optional<double> validation_loss = {}, validation_accuracy = {};
    double seconds = 0;
  };

  /// `began`: when the training did, in seconds after the run's start.
  explicit TrainingHistory(double began) : until_(began) {}

  /// Takes note of a metric of the training, measured `seconds` after the run's start. True where
  /// it is a number of an epoch.
  bool see(const NodeMetric& metric, double seconds);

  const std::vector<Epoch>& epochs() const { return epochs_; }
  nlohmann::ordered_json to_json() const;

 private:
  std::vector<Epoch> epochs_;
  double until_;  // the end of what epochs_ has
};

}  // namespace runner
