#include "runner/shared/error/diagnostic.h"

#include <csignal>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Stop, ExitsWithTheSignalsCode) {
  EXPECT_EQ(exit_code_of_stop(SIGINT, /*has_saved=*/false), ExitCode::kInterrupted);
  EXPECT_EQ(exit_code_of_stop(SIGTERM, /*has_saved=*/false), ExitCode::kTerminated);
  EXPECT_EQ(exit_code_of_stop(SIGHUP, /*has_saved=*/false), ExitCode::kTerminated);
}

TEST(Stop, HasASingleExitCodeAfterASave) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_EQ(exit_code_of_stop(signal, /*has_saved=*/true), ExitCode::kStoppedAfterSave) << signal;
}

TEST(Stop, IsDistinguishedFromAFailure) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    for (const bool has_saved : {false, true})
      EXPECT_TRUE(says_stopped(exit_code_of_stop(signal, has_saved))) << signal;
  }
  for (const ExitCode code :
       {ExitCode::kDone, ExitCode::kRunFailed, ExitCode::kWouldRun, ExitCode::kInternalError})
    EXPECT_FALSE(says_stopped(code)) << static_cast<int>(code);
}

}  // namespace
}  // namespace runner
