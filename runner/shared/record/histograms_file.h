#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/protocol/event.h"

namespace runner {

/// A line of histograms.jsonl.
struct HistogramLine {
  NodeHistogram histogram;
  double time = 0;  ///< seconds since the start of the run
};

/// Parses a line of histograms.jsonl; nullopt if it is not a histogram.
std::optional<HistogramLine> histogram_line(const std::string& text);

/// The file histograms.jsonl: one histogram per line, {"node", "name", "buckets": [[left, right,
/// count]], "step", "time"}. Its functions throw WriteError.
class HistogramsFile {
 public:
  /// Continues the file at `path`, if it exists; otherwise it is created with the first histogram.
  /// Drops lines that are not histograms, such as an incomplete last line. `storage` is borrowed.
  HistogramsFile(std::filesystem::path path, Storage& storage);

  void append(const NodeHistogram& histogram, double seconds);
  /// Flushes to the disk: everything appended so far survives a power cut once this returns.
  void sync();
  /// Drops the histograms of `node` after `step`. The file is replaced atomically.
  void rewind(std::string_view node, std::int64_t step);

 private:
  std::filesystem::path path_;
  Storage* storage_;
  std::optional<NewFile> file_;
};

/// Returns the histograms in the file at `path`; none if there is no file.
std::vector<HistogramLine> read_histograms(const std::filesystem::path& path);

}  // namespace runner
