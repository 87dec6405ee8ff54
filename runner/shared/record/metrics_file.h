#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// A line of metrics.jsonl.
struct MetricLine {
  NodeMetric metric;
  double time = 0;  ///< seconds since the start of the run
};

/// Parses a line of metrics.jsonl; nullopt if it is not a metric.
std::optional<MetricLine> metric_line(const std::string& text);

/// The metrics.jsonl file: one metric per line, {"node", "name", "value", "step", "time"}. Its
/// functions throw WriteError.
class MetricsFile {
 public:
  /// Creates an empty file; it must not exist yet.
  static MetricsFile make(std::filesystem::path path, Storage& storage);
  /// Continues the file of an earlier run. Drops lines that are not metrics, such as an incomplete
  /// last line.
  static MetricsFile reopen(std::filesystem::path path, Storage& storage);

  void append(const NodeMetric& metric, double seconds);
  /// Flushes to the disk: everything appended so far survives a power cut once this returns.
  void sync() { file_->sync(); }
  /// Drops all but the first `count` metrics of `node`, and returns its remaining metrics. The file
  /// is replaced atomically.
  std::vector<MetricLine> rewind(std::string_view node, std::int64_t count);
  /// Returns all metrics in the file.
  std::vector<MetricLine> read() const;

 private:
  MetricsFile(std::filesystem::path path, Storage& storage)
      : path_(std::move(path)), storage_(&storage) {}
  void rewrite(const std::function<bool(const MetricLine&)>& keep);

  std::filesystem::path path_;
  Storage* storage_;
  std::optional<NewFile> file_;
};

/// The metrics of a run, as read_metrics() reads them from its metrics.jsonl at `path`.
struct RecordedMetrics {
  std::vector<MetricLine> lines;
  std::size_t damaged = 0;  ///< skipped lines that are not metrics, except for an incomplete
                            ///< last line
};
RecordedMetrics read_metrics(const std::filesystem::path& path);

/// Returns the time of the last complete line of a metrics.jsonl; 0 if there is none. Reads only
/// the tail of the file.
double last_measured(const std::filesystem::path& path);

}  // namespace runner
