#include "runner/tracker/end_patience.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

using std::chrono::milliseconds;
using Verdict = EndPatience::Verdict;

EndPatience::Time at(std::int64_t ms) { return EndPatience::Time(milliseconds(ms)); }

/// Patience for 5 s, with 2 s for each response.
EndPatience patience() { return EndPatience({milliseconds(5000), milliseconds(2000)}); }

TEST(EndPatience, RunIsFollowedWithoutLimits) {
  EndPatience following = patience();
  following.ask(at(0));
  EXPECT_EQ(following.verdict(at(1'000'000)), Verdict::kWait);
}

TEST(EndPatience, PatienceForARequestStartsBeforeTheEnd) {
  EndPatience silent = patience();
  silent.ask(at(0));
  silent.end(at(1900));
  EXPECT_EQ(silent.verdict(at(1999)), Verdict::kWait);
  EXPECT_EQ(silent.verdict(at(2000)), Verdict::kSilent);
}

TEST(EndPatience, SilentServerDoesNotDelayTheEnd) {
  EndPatience silent = patience();
  silent.ask(at(0));
  silent.end(at(10'000));
  EXPECT_EQ(silent.verdict(at(10'000)), Verdict::kSilent);
}

TEST(EndPatience, ServerThatWasSilentBeforeGetsAQuarterOfTheLimit) {
  EndPatience silent = patience();
  silent.ask(at(0));
  silent.answered(false);
  silent.end(at(100));
  silent.ask(at(100));
  EXPECT_EQ(silent.verdict(at(599)), Verdict::kWait);
  EXPECT_EQ(silent.verdict(at(600)), Verdict::kSilent);
}

TEST(EndPatience, SlowServerGetsTheWholeLimit) {
  EndPatience slow = patience();
  slow.end(at(0));
  for (int second = 0; second < 5; ++second) {
    slow.ask(at(1000 * second));
    EXPECT_EQ(slow.verdict(at(1000 * second + 999)), Verdict::kWait);
    slow.answered(true);
  }
  EXPECT_EQ(slow.verdict(at(5000)), Verdict::kLate);
}

TEST(EndPatience, ExportHasNoLimits) {
  EndPatience exporting({.everything = milliseconds(0), .answer = milliseconds(2000)});
  exporting.end(at(0));
  exporting.ask(at(0));
  EXPECT_EQ(exporting.verdict(at(1'000'000)), Verdict::kWait);
}

}  // namespace
}  // namespace runner
