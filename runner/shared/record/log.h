#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/log_level.h"

namespace runner {

/// One line of a log. A view of what it says.
struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string_view node = {};  ///< the stage that it is about; empty: the run as a whole
  std::string_view text = {};
  double seconds = 0;  ///< after the start of the run
};

/// Where the lines of a program go that tell how it works. Both programs have one, and hand it to
/// whoever may write to it: retort's writes log.txt, the worker's sends events to retort. spdlog
/// filters, forms and hands on the lines; only log.cpp includes it.
///
///   Log log = Log::to_file(NewFile(folder / "log.txt"), LogLevel::kInfo, 64 << 20);
///   log.write({.node = "train", .text = "epoch 1", .seconds = 1.5});   //      1.500  info train:
///   epoch 1
///
/// Many threads may write to one log if its receiver allows it.
class Log {
 public:
  using Receiver = std::function<void(const LogLine&)>;

  /// Appends to `file`, which has `size` bytes, for one thread, until it has `limit` bytes; what
  /// comes later is counted by level, and flush() writes the count. Control characters are made
  /// harmless.
  static Log to_file(NewFile file, LogLevel level, std::size_t limit, std::size_t size = 0);
  /// Hands lines on, those of `level` and of later ones.
  static Log to_receiver(LogLevel level, Receiver receiver);
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  ~Log();

  /// True where a line of `level` is kept: what is costly to find out need not be found out for
  /// nobody.
  bool takes(LogLevel level) const;
  /// Drops the line where it is not to be kept. Throws what the receiver throws, or WriteError.
  void write(const LogLine& line);
  /// Throws as write() does.
  void flush();

 private:
  class Logger;
  explicit Log(std::unique_ptr<Logger> logger);

  std::unique_ptr<Logger> logger_;
};

}  // namespace runner
