#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// A line of metrics.jsonl.
struct MetricLine {
  NodeMetric metric;
  double time = 0;  ///< seconds after the run's start
};

/// metrics.jsonl: one metric per line, {"node", "name", "value", "step", "time"}. Throws
/// WriteError.
class MetricsFile {
 public:
  /// Creates an empty file; it must not exist.
  static MetricsFile make(std::filesystem::path path, Storage& storage);
  /// Continues the file of an earlier run. Drops lines that are not metrics, such as a last line
  /// that was cut off.
  static MetricsFile reopen(std::filesystem::path path, Storage& storage);

  void append(const NodeMetric& metric, double seconds);
  /// Everything appended is on the disk when this returns.
  void sync() { file_->sync(); }
  /// Drops all but the first `count` metrics of `node`, and returns those. The file is replaced
  /// atomically.
  std::vector<MetricLine> rewind(std::string_view node, std::int64_t count);
  /// All metrics in the file.
  std::vector<MetricLine> read() const;

 private:
  MetricsFile(std::filesystem::path path, Storage& storage)
      : path_(std::move(path)), storage_(&storage) {}
  template <typename Keep>
  void rewrite(const Keep& keep);

  std::filesystem::path path_;
  Storage* storage_;
  std::optional<NewFile> file_;
};

/// The metrics of a run, read from its metrics.jsonl at `path`.
struct RecordedMetrics {
  std::vector<MetricLine> lines;
  std::size_t damaged = 0;  ///< lines that are not metrics and were skipped; a last line that was
                            ///< cut off is not counted
};
RecordedMetrics read_metrics(const std::filesystem::path& path);

/// The time of the last complete line of such a file; 0 if there is none. Reads only the end of the
/// file.
double last_measured(const std::filesystem::path& path);

}  // namespace runner
