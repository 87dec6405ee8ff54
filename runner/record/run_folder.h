#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/disk/new_file.h"
#include "runner/error/result.h"
#include "runner/record/metrics_file.h"

namespace runner {

/// Makes the folder of a new run and claims it, so that no two runs ever share one: `run_dir`, which must be absent or
/// empty, or where it is empty text outputs/<date>/<time> below `base` (local time of `now`; -1, -2 … when taken).
/// kRunFolderTaken, kCannotCreate or kDiskFull at /run/dir when that does not work.
Result<std::filesystem::path> create_run_folder(const std::string& run_dir, const std::filesystem::path& base,
                                                std::chrono::system_clock::time_point now, Storage& storage = disk());

/// The record of one run; the only writer of everything in its folder outside nodes/. Throws WriteError.
///
///   .retort/run.json     marks the folder as ours
///   .retort/…            what was asked: config, overrides, recipe, environment, graph
///   .retort/source.json  of an evaluation: whose weights it took
///   nodes/<id>/          one node's files, written by the worker; but for training_metrics.json
///   .retort/resume-1/    … when it was resumed for the first time: overrides, recipe, environment
///   metrics.jsonl        one measured number a line (metrics_file.h)
///   log.txt              what was said, and what the worker printed
///   summary.json         how it went; replaced as a whole
class RunFolder {
 public:
  /// A new run in a `folder` from create_run_folder(). `log_limit`: bytes after which log.txt takes no more. `storage`
  /// is borrowed.
  explicit RunFolder(std::filesystem::path folder, Storage& storage = disk(), std::size_t log_limit = 64 << 20);
  /// The run in `folder` again, which nobody else may be at work on (run_lock.h).
  static RunFolder reopen(std::filesystem::path folder, Storage& storage = disk(), std::size_t log_limit = 64 << 20);

  const std::filesystem::path& path() const { return folder_; }

  /// A file of .retort/, e.g. "recipe.yaml"; of a run that was resumed, of .retort/resume-N/.
  void record(const std::string& name, std::string_view text);
  void record_json(const std::string& name, const nlohmann::ordered_json& json);
  /// A file of nodes/<node>/, which the worker has made.
  void record_of_node(const std::string& node, const std::string& name, const nlohmann::ordered_json& json);
  /// When a training began whose metrics are `kept`, at least one, in seconds after the run's start: by what its
  /// training_metrics.json says that the first epoch took, or else with its first metric.
  double beginning_of(const std::string& node, std::span<const MetricLine> kept) const;
  MetricsFile& metrics() { return metrics_; }
  /// One line of log.txt, `seconds` after the start; control characters are made harmless.
  void log(double seconds, std::string_view line);
  void summary(const nlohmann::ordered_json& summary);

 private:
  RunFolder(std::filesystem::path folder, Storage& storage, std::size_t log_limit, MetricsFile metrics, NewFile log);

  std::filesystem::path folder_, records_;
  Storage& storage_;
  MetricsFile metrics_;
  NewFile log_;
  std::size_t log_left_;
  bool log_is_full_ = false;
};

/// `overrides` as typed, as a YAML list for the record; the value of one whose key speaks of a token, key, secret or
/// password is "***".
std::string overrides_yaml(const std::vector<std::string>& overrides);

}  // namespace runner
