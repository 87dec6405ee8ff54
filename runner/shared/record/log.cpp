#include "runner/shared/record/log.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <spdlog/details/null_mutex.h>
#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using spdlog::details::log_msg;
using Seconds = std::chrono::duration<double>;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

LogLevel from_spdlog(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace:
      return LogLevel::kTrace;
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarn;
    default:
      return LogLevel::kError;
  }
}

std::string_view view(spdlog::string_view_t text) { return {text.data(), text.size()}; }

/// Converts an spdlog message: its time is relative to the start of the run, and its logger name is
/// the node.
LogLine to_line(const log_msg& message) {
  return {from_spdlog(message.level), view(message.logger_name), view(message.payload),
          Seconds(message.time.time_since_epoch()).count()};
}

/// Formats lines such as "     1.500  info   train: epoch 1".
class LineFormatter final : public spdlog::formatter {
 public:
  void format(const log_msg& message, spdlog::memory_buf_t& out) override {
    const LogLine line = to_line(message);
    fmt::format_to(std::back_inserter(out), "{:10.3f}  {:5}  {}{}{}\n", line.seconds,
                   name(line.level), printable(line.node), line.node.empty() ? "" : ": ",
                   printable(line.text));
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>();
  }
};

/// A file with a size limit. Lines that do not fit are only counted.
class BoundedFileSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  BoundedFileSink(NewFile file, std::size_t limit, std::size_t size)
      : base_sink(std::make_unique<LineFormatter>()),
        file_(std::move(file)),
        limit_(limit),
        left_(limit - std::min(size, limit)) {}

 private:
  void sink_it_(const log_msg& message) override {
    if (is_full_) return count(message);
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    if (text.size() > left_) {
      is_full_ = true;
      count(message);
      return file_.append("… the log has reached its limit of " +
                          bytes_text(static_cast<std::int64_t>(limit_)) +
                          ": later lines are dropped\n");
    }
    left_ -= text.size();
    file_.append({text.data(), text.size()});
  }

  void flush_() override {
    std::string counts;
    for (std::size_t level = 0; level < dropped_.size(); ++level) {
      if (dropped_[level] == 0) continue;
      counts += (counts.empty() ? "" : ", ") + std::to_string(dropped_[level]) + " of level " +
                std::string(name(static_cast<LogLevel>(level)));
    }
    dropped_ = {};
    if (!counts.empty()) file_.append("… lines dropped: " + counts + "\n");
  }

  void count(const log_msg& message) {
    ++dropped_[static_cast<std::size_t>(from_spdlog(message.level))];
  }

  NewFile file_;
  const std::size_t limit_;
  std::size_t left_;
  bool is_full_ = false;
  std::array<std::int64_t, kLogLevels.size()> dropped_ = {};  // by level
};

class ReceiverSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit ReceiverSink(Log::Receiver receiver)
      : base_sink(std::make_unique<LineFormatter>()), receiver_(std::move(receiver)) {}

 private:
  void sink_it_(const log_msg& message) override { receiver_(to_line(message)); }
  void flush_() override {}

  Log::Receiver receiver_;
};

}  // namespace

/// An spdlog logger in which each line has its own logger name and time, and errors of the sink are
/// thrown to the caller.
class Log::Logger final : public spdlog::logger {
 public:
  Logger(LogLevel level, spdlog::sink_ptr sink) : logger("", std::move(sink)) {
    set_level(to_spdlog(level));
    set_error_handler([](const std::string&) { throw; });  // called while the error is
                                                           // handled
  }

  void write(const LogLine& line) {
    const spdlog::level::level_enum level = to_spdlog(line.level);
    const auto time = spdlog::log_clock::time_point(
        std::chrono::duration_cast<spdlog::log_clock::duration>(Seconds(line.seconds)));
    log_it_(log_msg(time, {}, line.node, level, line.text), should_log(level),
            /*traceback_enabled=*/false);
  }
};

Log::Log(std::unique_ptr<Logger> logger) : logger_(std::move(logger)) {}
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;
Log::~Log() = default;

Log Log::to_file(NewFile file, LogLevel level, std::size_t limit, std::size_t size) {
  return Log(std::make_unique<Logger>(
      level, std::make_shared<BoundedFileSink>(std::move(file), limit, size)));
}

Log Log::to_receiver(LogLevel level, Receiver receiver) {
  return Log(std::make_unique<Logger>(level, std::make_shared<ReceiverSink>(std::move(receiver))));
}

bool Log::takes(LogLevel level) const { return logger_->should_log(to_spdlog(level)); }
void Log::write(const LogLine& line) { logger_->write(line); }
void Log::flush() { logger_->flush(); }

}  // namespace runner
