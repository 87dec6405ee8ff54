#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace runner {

/// Splits a worker's output, which arrives in chunks, into lines. Keeps the last few lines, which
/// may explain why a worker died.
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
};

}  // namespace runner
