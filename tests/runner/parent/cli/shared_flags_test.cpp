#include "runner/parent/cli/command.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace runner {
namespace {

class LogFlagsTest : public testing::Test {
 protected:
  LogFlagsTest() { unsetenv("RETORT_LOG"); }
  ~LogFlagsTest() override { unsetenv("RETORT_LOG"); }
  static LogLevel level(const char* flag, const char* variable) {
    setenv("RETORT_LOG", variable, 1);
    return *LogFlags{flag}.chosen();
  }
};

TEST_F(LogFlagsTest, FlagOverridesVariableAndVariableOverridesDefault) {
  EXPECT_EQ(*LogFlags{}.chosen(), LogLevel::kInfo);
  EXPECT_EQ(level("", ""), LogLevel::kInfo);
  EXPECT_EQ(level("", "debug"), LogLevel::kDebug);
  EXPECT_EQ(level("error", "debug"), LogLevel::kError);
  EXPECT_EQ(level("off", "nonsense"), LogLevel::kOff);
}

TEST_F(LogFlagsTest, UnknownLevelInTheVariableIsRejected) {
  setenv("RETORT_LOG", "debgu", 1);
  const auto refused = LogFlags{}.chosen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().front().code, ErrorCode::kUsage);
  EXPECT_EQ(refused.errors().front().message, "RETORT_LOG is 'debgu', which is not a log level");
  EXPECT_EQ(refused.errors().front().help,
            "did you mean 'debug'? the levels are trace, debug, info, warn, error, off");
}

}  // namespace
}  // namespace runner
