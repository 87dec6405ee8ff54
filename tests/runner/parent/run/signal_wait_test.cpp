#include "runner/parent/run/worker_process.h"

#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

namespace runner {
namespace {

using namespace std::chrono_literals;

TEST(SignalWait, LastsTheGivenTime) {
  SignalWait wait;
  EXPECT_EQ(wait(0ms), std::nullopt);
  EXPECT_EQ(wait(1ms), std::nullopt);
}

TEST(SignalWait, EndsWithATerminatingSignal) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    SignalWait wait;
    kill(getpid(), SIGWINCH);  // does not end the wait
    kill(getpid(), number);
    EXPECT_EQ(wait(24h), number);
  }
}

TEST(SignalWait, ReceivesEarlierSignals) {
  const SignalSource before;
  kill(getpid(), SIGTERM);
  SignalWait wait;
  EXPECT_EQ(wait(24h), SIGTERM);
}

}  // namespace
}  // namespace runner
