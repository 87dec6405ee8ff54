#include "runner/shared/text/date.h"

#include <ctime>

#include <gtest/gtest.h>

#include "tests/support/scoped_variable.h"

namespace runner {
namespace {

TEST(Date, IsFormattedInUtcAndLocalTime) {
  const ScopedVariable zone("TZ", "XYZ-05:30");  // POSIX: five and a half hours east
  tzset();
  const auto time = std::chrono::system_clock::from_time_t(1'700'000'000);
  EXPECT_EQ(utc_time(time, "%Y-%m-%dT%H:%M:%SZ"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(local_time(time, "%Y-%m-%dT%H:%M:%S%z"), "2023-11-15T03:43:20+0530");
}

}  // namespace
}  // namespace runner
