#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace runner {

/// How far a run is, as its files tell it: on this machine or another that shares the folder.
struct RunProgress {
  std::string
      status;  ///< status_now() of summary.json (run_lock.h), "running"; empty: it has not begun
  std::string node;  ///< that has measured last; empty: none
  std::int64_t epoch =
      0;  ///< of that training, the one at work or, at the end, the last; 0: it is none
  std::int64_t epochs = 0;  ///< that it is to have; 0: not known
  std::int64_t step = 0;    ///< of the last measurement
  std::string metric;       ///< what says most of what was measured last: of an evaluation, of a
                            ///< validation, or a loss
  double value = 0;         ///< of the metric
  std::int64_t memory_bytes = 0;       ///< the peak of the tensors; 0: not measured
  std::optional<double> seconds_left;  ///< of the training, by its epochs so far
  double silent_seconds = 0;  ///< since it last measured something; 0 where it is not at work
};

/// Reads the folder of a run; a part of metrics.jsonl that does not grow with it. What is not
/// there, or cut off while it is written, is left out.
RunProgress run_progress(const std::filesystem::path& run);

/// Some lines at the bottom of a terminal that are drawn over each other. It never hides the
/// cursor, and what was drawn last stays when it ends.
class LiveText {
 public:
  explicit LiveText(std::ostream& out) : out_(out) {}
  /// Shows `text`, whole lines, each cut to `width` columns, in place of what is shown.
  void draw(const std::string& text, int width);
  /// Takes it away, to write something else.
  void clear();

 private:
  std::ostream& out_;
  int lines_ = 0;  // that stand above the cursor
};

}  // namespace runner
