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

/// metrics.jsonl: one measured number a line, {"node", "name", "value", "step", "time"}. Throws
/// WriteError.
class MetricsFile {
 public:
  /// Makes an empty one; it must not exist.
  static MetricsFile make(std::filesystem::path path, Storage& storage);
  /// Continues what a run left. Lines that are no metrics, such as a last one that was cut off, are
  /// dropped.
  static MetricsFile reopen(std::filesystem::path path, Storage& storage);

  void append(const NodeMetric& metric, double seconds);
  /// Everything appended is on the disk.
  void sync() { file_->sync(); }
  /// Drops all but the first `count` metrics of `node`, and gives those back. The file is replaced
  /// as a whole.
  std::vector<MetricLine> rewind(std::string_view node, std::int64_t count);
  /// All that the file holds.
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

/// What a run has measured, from its metrics.jsonl at `path`.
struct RecordedMetrics {
  std::vector<MetricLine> lines;
  std::size_t damaged =
      0;  ///< lines that are no metrics and left out; a last one that was cut off is not counted
};
RecordedMetrics read_metrics(const std::filesystem::path& path);

/// The time of the last whole line of such a file, of which only the end is read; 0: there is none.
double last_measured(const std::filesystem::path& path);

}  // namespace runner
