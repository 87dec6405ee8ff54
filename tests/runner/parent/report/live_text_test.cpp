#include "runner/parent/report/run_progress.h"

#include <sstream>

#include <gtest/gtest.h>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

TEST(LiveText, ReplacesItsPreviousText) {
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
  EXPECT_EQ(out.str(), "\r\x1b[1A\x1b[J") << "removed text is not removed again";
}

TEST(LiveText, LinesAreShortenedToTheTerminal) {
  std::ostringstream out;
  LiveText(out).draw("one two three\nab\n", 8);
  EXPECT_EQ(out.str(), "one …\nab\n");
}

TEST(LiveText, NumbersAreNotTruncated) {
  const std::string line = "train  epoch 1/8  step 10/160  loss 2.0761  ETA 0:01:02";
  for (std::size_t most = 1; most <= line.size(); ++most) {
    const std::string cut = cut_to_width(line, most);
    EXPECT_LE(columns(cut), most);
    if (most < 7 || most == line.size()) continue;
    ASSERT_TRUE(cut.ends_with(" …")) << cut;
    const std::string words = cut.substr(0, cut.size() - std::string(" …").size());
    EXPECT_TRUE(line.starts_with(words + " ")) << cut;
  }
  EXPECT_EQ(cut_to_width(line, line.size()), line);
}

}  // namespace
}  // namespace runner
