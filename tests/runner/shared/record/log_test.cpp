#include "runner/shared/record/log.h"

#include <cerrno>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/disk/fault.h"
#include "tests/support/forwarding_storage.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class LogTest : public testing::Test {
 protected:
  Log log_to_file(LogLevel level, std::size_t limit = 1 << 20, Storage& storage = disk()) {
    return Log::to_file(NewFile(folder_ / "log.txt", storage), level, limit);
  }
  std::string text() const { return folder_.read("log.txt"); }

  TemporaryFolder folder_;
};

TEST_F(LogTest, LineHasTimeLevelAndNode) {
  Log log = log_to_file(LogLevel::kTrace);
  log.write({.level = LogLevel::kTrace, .node = "data", .text = "a"});
  log.write({.level = LogLevel::kDebug, .node = "data", .text = "b", .seconds = 0.0016});
  log.write({.level = LogLevel::kInfo, .text = "c", .seconds = 1.5});
  log.write({.level = LogLevel::kWarn, .node = "train.0-1", .text = "{} %s", .seconds = 3600});
  log.write({.level = LogLevel::kError, .text = "e", .seconds = 1234567.125});
  EXPECT_EQ(text(),
            "     0.000  trace  data: a\n"
            "     0.002  debug  data: b\n"
            "     1.500  info   c\n"
            "  3600.000  warn   train.0-1: {} %s\n"
            "1234567.125  error  e\n");
}

TEST_F(LogTest, ControlCharactersAreHarmless) {
  log_to_file(LogLevel::kInfo).write({.node = "a\nb", .text = "\x1b[31mred\nline\xff"});
  EXPECT_EQ(text(), "     0.000  info   a b:  [31mred line?\n");
}

TEST_F(LogTest, LinesBelowTheLevelAreDropped) {
  const std::array kLevels = {LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo,
                              LogLevel::kWarn,  LogLevel::kError, LogLevel::kOff};
  for (const LogLevel kept : kLevels) {
    std::string heard, expected;
    Log log = Log::to_receiver(
        kept, [&](const LogLine& line) { heard += std::string(name(line.level)) + " "; });
    for (const LogLevel level : kLevels) {
      if (level == LogLevel::kOff) continue;  // no line has this level
      EXPECT_EQ(log.takes(level), level >= kept);
      log.write({.level = level, .text = "x"});
      if (level >= kept) expected += std::string(name(level)) + " ";
    }
    EXPECT_EQ(heard, expected);
  }
}

TEST_F(LogTest, ReceiverGetsTheUnchangedLine) {
  std::string heard;
  Log log = Log::to_receiver(LogLevel::kInfo, [&](const LogLine& line) {
    heard =
        std::string(line.node) + "|" + std::string(line.text) + "|" + std::to_string(line.seconds);
  });
  log.write({.node = "train", .text = "two\nlines", .seconds = 0.25});
  EXPECT_EQ(heard, "train|two\nlines|0.250000");
}

TEST_F(LogTest, FullLogIsReportedOnceAndCountsDroppedLines) {
  Log log = log_to_file(LogLevel::kDebug, 60);
  for (int i = 0; i < 9; ++i)
    log.write({.level = i % 3 == 2 ? LogLevel::kWarn : LogLevel::kDebug, .text = "0123456"});
  log.write({.level = LogLevel::kTrace, .text = "is not kept anyhow"});
  const std::string full =
      "     0.000  debug  0123456\n     0.000  debug  0123456\n"
      "… the log has reached its limit of 60 B: later lines are dropped\n";
  EXPECT_EQ(text(), full);
  log.flush();
  log.flush();
  EXPECT_EQ(text(), full + "… lines dropped: 4 of level debug, 3 of level warn\n");
}

TEST_F(LogTest, FlushingALogThatIsNotFullWritesNothing) {
  Log log = log_to_file(LogLevel::kInfo);
  log.flush();
  EXPECT_EQ(text(), "");
}

TEST_F(LogTest, EveryWriteReportsAFullDisk) {
  FaultyStorage full(disk(), {Fault::Point::kWrite, 2, Fault::Action::kFull});
  Log log = log_to_file(LogLevel::kInfo, 1 << 20, full);
  log.write({.text = "there is room"});
  for (int i = 0; i < 3; ++i) {
    try {
      log.write({.text = "there is none"});
      FAIL();
    } catch (const WriteError& error) {
      EXPECT_EQ(error.diagnostic().code, ErrorCode::kDiskFull);
      EXPECT_EQ(error.diagnostic().message,
                "cannot write '" + (folder_ / "log.txt").string() + "': No space left on device");
    }
  }
}

TEST_F(LogTest, FlushReportsAFullDisk) {
  FaultyStorage full(disk(), {Fault::Point::kWrite, 2, Fault::Action::kFull});
  Log log = log_to_file(LogLevel::kInfo, 1, full);
  log.write({.text = "this says that the log is full"});
  EXPECT_THROW(log.flush(), WriteError);
}

TEST_F(LogTest, ExceptionsInTheReceiverReachTheWriter) {
  Log log =
      Log::to_receiver(LogLevel::kInfo, [](const LogLine&) { throw std::out_of_range("far"); });
  EXPECT_THROW(log.write({.text = "x"}), std::out_of_range);
}

TEST(LogLevels, ReadBackFromTheirNames) {
  for (const std::string_view word : kLogLevels) {
    ASSERT_TRUE(log_level_named(word));
    EXPECT_EQ(name(*log_level_named(word)), word);
  }
  for (const char* word : {"", "INFO", "warning", "verbose", "info "})
    EXPECT_FALSE(log_level_named(word)) << word;
}

}  // namespace
}  // namespace runner
