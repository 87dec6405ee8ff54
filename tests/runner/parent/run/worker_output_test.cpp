#include "runner/parent/run/worker_output.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;

class WorkerOutputTest : public testing::Test {
 protected:
  std::vector<std::string> lines_;
  WorkerOutput output_{[this](const std::string& line) { lines_.push_back(line); }};
};

TEST_F(WorkerOutputTest, LinesMayArriveInPieces) {
  output_.take("one\ntw");
  EXPECT_THAT(lines_, ElementsAre("one"));
  output_.take("o\r\n\nthree");
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
  output_.take_rest();
  EXPECT_THAT(lines_, ElementsAre("one", "two", "three"));
}

TEST_F(WorkerOutputTest, VeryLongLineIsSplit) {
  output_.take(std::string(70'000, 'x'));
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0].size(), 70'000u);
}

TEST_F(WorkerOutputTest, LastFiveLinesAreKept) {
  output_.take("1\n2\n3\n4\n5\n6\n7");
  output_.take_rest();
  EXPECT_THAT(output_.last_lines(), ElementsAre("3", "4", "5", "6", "7"));
}

TEST_F(WorkerOutputTest, FirstLinesOfPythonsCrashReportAreKept) {
  output_.take("1\n2\n3\nFatal Python error: Aborted\n\n4\n5\n6\n7\n8\n9\n");
  EXPECT_THAT(output_.last_lines(), ElementsAre("Fatal Python error: Aborted", "4", "5", "6", "7"));
}

}  // namespace
}  // namespace runner
