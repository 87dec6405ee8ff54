#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace runner {

/// What a worker prints, which comes in pieces, as lines. The last few are kept: they tell why it died.
class WorkerOutput {
 public:
  /// `on_line` is called with each line, without its end; empty ones are left out.
  explicit WorkerOutput(std::function<void(const std::string&)> on_line) : on_line_(std::move(on_line)) {}

  void take(std::string_view text);
  /// Takes what has come without an end of line for a line.
  void take_rest();
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void tell(const std::string& line);

  std::function<void(const std::string&)> on_line_;
  std::string text_;  // not yet a line
  std::deque<std::string> last_lines_;
};

}  // namespace runner
