#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace runner {

/// How far a run is, read from its files, on this machine or another that shares the folder.
struct RunProgress {
  std::string status;  ///< status_now() of summary.json, "running"; empty: it has not begun
  std::string node;    ///< the node that has measured last; empty: none
  std::int64_t epoch =
      0;  ///< of the running training or, at the end, the last one; 0: not a training
  std::int64_t epochs = 0;  ///< planned epochs; 0: not known
  std::int64_t step = 0;    ///< of the last measurement
  std::string metric;       ///< the most important of the last measurements: of an evaluation, of a
                            ///< validation, or a loss
  double value = 0;         ///< of the metric
  std::int64_t memory_bytes = 0;       ///< the peak of the tensors; 0: not measured
  std::optional<double> seconds_left;  ///< of the training, estimated from its epochs so far
  double silent_seconds = 0;           ///< since it last measured something; 0 if it is not running
};

/// Reads the folder of a run; the part of metrics.jsonl that is read does not grow with the file.
/// What is missing, or incomplete because it is being written, is left out.
RunProgress run_progress(const std::filesystem::path& run);

/// Lines at the bottom of a terminal that are redrawn in place. It never hides the cursor, and the
/// last drawing stays when it ends.
class LiveText {
 public:
  explicit LiveText(std::ostream& out) : out_(out) {}
  /// Shows `text`, whole lines, each cut to `width` columns, in place of the current lines.
  void draw(const std::string& text, int width);
  /// Erases the lines so that something else can be written.
  void clear();

 private:
  std::ostream& out_;
  int lines_ = 0;  // drawn above the cursor
};

}  // namespace runner
