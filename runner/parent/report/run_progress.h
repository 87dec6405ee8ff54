#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace runner {

/// The progress of a run, read from its files, on this machine or another that shares the folder.
struct RunProgress {
  std::string status;  ///< status_now() of summary.json, "running"; empty: not started
  std::string node;    ///< the last node to measure something; empty: none
  /// Epoch of the running training stage or, at the end, of the last one; 0: no training stage.
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;  ///< planned epochs; 0: unknown
  std::int64_t step = 0;    ///< of the last measurement
  /// The most important recent metric: of an evaluation, else of a validation, else the loss.
  std::string metric;
  double value = 0;                    ///< the value of `metric`
  std::int64_t memory_bytes = 0;       ///< peak memory of tensors; 0: not measured
  std::optional<double> seconds_left;  ///< estimated time left for the training stage, based on its
                                       ///< epochs so far
  double silent_seconds = 0;  ///< time since the last measurement; 0 if the run is not running
};

/// Reads the progress of the run in that folder. How much of metrics.jsonl is read does not depend
/// on the file's size. Missing files, and files that are still being written, are ignored.
RunProgress run_progress(const std::filesystem::path& run);

/// Lines at the bottom of a terminal that are redrawn in place. LiveText never hides the cursor;
/// its destructor leaves the last lines drawn on the terminal.
class LiveText {
 public:
  explicit LiveText(std::ostream& out) : out_(out) {}
  /// Replaces the current lines with those of `text`, each cut to `width` columns.
  void draw(const std::string& text, std::size_t width);
  /// Erases the lines so that other output can be written.
  void clear();

 private:
  std::ostream& out_;
  int lines_ = 0;  // drawn above the cursor
};

}  // namespace runner
