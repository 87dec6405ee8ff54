#include "runner/report/live_text.h"

#include <sstream>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(LiveText, IsDrawnOverWhatStandsThere) {
  std::ostringstream out;
  LiveText text(out);
  text.draw("one\ntwo\n", 80);
  EXPECT_EQ(out.str(), "one\ntwo\n");
  out.str("");
  text.draw("three\n", 80);
  EXPECT_EQ(out.str(), "\r\x1b[2A\x1b[Jthree\n");
  out.str("");
  text.clear();
  text.clear();
  EXPECT_EQ(out.str(), "\r\x1b[1A\x1b[J") << "what is away is not taken away again";
}

TEST(LiveText, LinesAreCutToTheTerminal) {
  std::ostringstream out;
  LiveText(out).draw("one two three\nab\n", 8);
  EXPECT_EQ(out.str(), "one two\nab\n");
}

}  // namespace
}  // namespace runner
