#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/log_level.h"

namespace runner {

/// One line of a log. Does not own its text.
struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string_view node = {};  ///< the stage that logs it; empty: the run as a whole
  std::string_view text = {};
  double seconds = 0;  ///< after the start of the run
};

/// A program's log. Both programs have one and pass it to the code that logs: retort's writes
/// log.txt, the worker's sends events to retort. spdlog filters, formats and forwards the lines;
/// only log.cpp includes it.
///
///   Log log = Log::to_file(NewFile(folder / "log.txt"), LogLevel::kInfo, 64 << 20);
///   log.write({.node = "train", .text = "epoch 1", .seconds = 1.5});
///   // writes:      1.500  info train: epoch 1
///
/// Several threads may write to one log if its receiver allows it.
class Log {
 public:
  using Receiver = std::function<void(const LogLine&)>;

  /// Appends to `file`, which has `size` bytes, until it has `limit` bytes. Further lines are only
  /// counted, by level; flush() writes the counts. For one thread. Replaces control characters.
  static Log to_file(NewFile file, LogLevel level, std::size_t limit, std::size_t size = 0);
  /// Forwards lines of `level` and of more severe levels.
  static Log to_receiver(LogLevel level, Receiver receiver);
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  /// True if lines of `level` are kept. Lets callers skip costly messages.
  bool takes(LogLevel level) const;
  /// Ignores the line if its level is not kept. Throws what the receiver throws, or WriteError.
  void write(const LogLine& line);
  /// Throws as write() does.
  void flush();

 private:
  class Logger;
  explicit Log(std::unique_ptr<Logger> logger);

  std::unique_ptr<Logger> logger_;
};

}  // namespace runner
