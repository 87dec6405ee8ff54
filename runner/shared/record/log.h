#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/log_level.h"

namespace runner {

/// A log line. The text is borrowed.
struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string_view node = {};  ///< the node that logs the line; empty: the run as a whole
  std::string_view text = {};
  double seconds = 0;  ///< time since the start of the run
};

/// The log of a program. Each program has a log and passes it to the code that logs: retort's log
/// writes log.txt, and the worker's log sends events to retort. spdlog filters, formats and
/// forwards the lines; only log.cpp includes it.
///
///   Log log = Log::to_file(NewFile(folder / "log.txt"), LogLevel::kInfo, 64 << 20);
///   log.write({.node = "train", .text = "epoch 1", .seconds = 1.5});
///   // writes:      1.500  info train: epoch 1
///
/// Multiple threads may write to a log if its receiver allows it.
class Log {
 public:
  using Receiver = std::function<void(const LogLine&)>;

  /// Appends to `file`, which already contains `size` bytes, until it reaches `limit` bytes.
  /// Further lines are only counted, by level, and flush() writes the counts. Only one thread may
  /// use the log. Control characters are replaced.
  static Log to_file(NewFile file, LogLevel level, std::size_t limit, std::size_t size = 0);
  /// Forwards lines at `level` or a more severe level to `receiver`.
  static Log to_receiver(LogLevel level, Receiver receiver);
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  /// True if the log keeps lines at `level`. Lets callers skip building expensive messages.
  bool takes(LogLevel level) const;
  /// Writes a line, unless the log does not keep its level. Throws what the receiver throws, or
  /// WriteError.
  void write(const LogLine& line);
  /// Throws the same errors as write().
  void flush();

 private:
  class Logger;
  explicit Log(std::unique_ptr<Logger> logger);

  std::unique_ptr<Logger> logger_;
};

}  // namespace runner
