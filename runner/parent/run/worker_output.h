#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace runner {

/// Splits a worker's output, which arrives in chunks, into lines. Keeps the last few lines, which
/// may explain why a worker died, or the first few of Python's report of a crash, which begins with
/// the innermost call.
class WorkerOutput {
 public:
  /// Calls `on_line` with each line, without its newline; skips empty lines.
  explicit WorkerOutput(std::function<void(const std::string&)> on_line)
      : on_line_(std::move(on_line)) {}

  void take(std::string_view text);
  /// Treats the incomplete remainder as a line.
  void take_rest();
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void report(const std::string& line);

  std::function<void(const std::string&)> on_line_;
  std::string text_;  // the start of an unfinished line
  std::deque<std::string> last_lines_;
  bool has_crashed_ = false;  // Python has reported a crash
};

}  // namespace runner
