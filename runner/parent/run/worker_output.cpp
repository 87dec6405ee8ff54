#include "runner/parent/run/worker_output.h"

namespace runner {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::size_t kLastLines = 5;
constexpr std::string_view kCrash = "Fatal Python error: ";  // of Python's faulthandler

}  // namespace

void WorkerOutput::take(std::string_view text) {
  text_ += text;
  for (std::size_t end; (end = text_.find_first_of("\r\n")) != text_.npos;) {
    report(text_.substr(0, end));
    text_.erase(0, end + 1);
  }
  if (text_.size() > kLongestLine) take_rest();
}

void WorkerOutput::take_rest() {
  if (!text_.empty()) report(text_);
  text_.clear();
}

void WorkerOutput::report(const std::string& line) {
  if (line.empty()) return;
  if (line.starts_with(kCrash)) {
    last_lines_.clear();
    has_crashed_ = true;
  }
  if (!has_crashed_ || last_lines_.size() < kLastLines) last_lines_.push_back(line);
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
  on_line_(line);
}

}  // namespace runner
