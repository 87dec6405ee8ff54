#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/result.h"
#include "runner/shared/record/log.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {

/// Makes the folder of a new run and claims it, so that no two runs ever share one: `run_dir`, which must be absent or
/// empty, or where it is empty text outputs/<date>/<time> below `base` (local time of `now`; -1, -2 … when taken).
/// kRunFolderTaken, kCannotCreate or kDiskFull at /run/dir when that does not work.
Result<std::filesystem::path> create_run_folder(const std::string& run_dir, const std::filesystem::path& base,
                                                std::chrono::system_clock::time_point now, Storage& storage = disk());

/// What of a run its log.txt holds.
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::size_t limit = 64 << 20;  ///< bytes; what comes after them is counted and not kept
};

/// The record of one run (run_layout.h): the only writer of everything in its folder outside nodes/, and of the
/// training_metrics.json in there. Throws WriteError.
class RunFolder {
 public:
  /// A new run in a `folder` from create_run_folder(). `storage` is borrowed. What is recorded is
  /// on the disk at once or, `together`, from commit() on, at half the price.
  enum class Records { kAtOnce, kTogether };
  explicit RunFolder(std::filesystem::path folder, Storage& storage = disk(), LogOptions log = {},
                     Records records = Records::kAtOnce);
  /// The run in `folder` again, which nobody else may be at work on (run_lock.h).
  static RunFolder reopen(std::filesystem::path folder, Storage& storage = disk(), LogOptions log = {});

  const std::filesystem::path& path() const { return layout_.folder(); }

  /// Puts what has waited for it on the disk, the summary too; from now on everything is there at once.
  void commit();

  /// A file of .retort/, one of RunRecord; of a run that was resumed, of .retort/resume-N/.
  void record(std::string_view name, std::string_view text);
  void record_json(std::string_view name, const nlohmann::ordered_json& json);
  /// training_metrics.json of `node`, whose folder the worker has made.
  void record_history(const std::string& node, const nlohmann::ordered_json& json);
  /// When a training began whose metrics are `kept`, at least one, in seconds after the run's start: by what its
  /// training_metrics.json says that the first epoch took, or else with its first metric.
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

}  // namespace runner
