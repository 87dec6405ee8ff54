#include "runner/shared/disk/line_tail.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class LineTailTest : public testing::Test {
 protected:
  void add(const std::string& text) const { std::ofstream(path(), std::ios::app) << text; }
  std::filesystem::path path() const { return folder_ / "lines"; }
  TemporaryFolder folder_;
};

TEST_F(LineTailTest, ReturnsCompleteLinesOnce) {
  LineTail tail(path());
  EXPECT_THAT(tail.next().lines, IsEmpty()) << "there is no file";
  add("a\nb\nha");
  EXPECT_THAT(tail.next().lines, ElementsAre("a", "b"));
  EXPECT_THAT(tail.next().lines, IsEmpty());
  add("lf\n");
  EXPECT_THAT(tail.next().lines, ElementsAre("half"));
}

TEST_F(LineTailTest, ReturnsAtMostTheRequestedLines) {
  add("a\nb\nc\n");
  LineTail tail(path());
  EXPECT_THAT(tail.next(2).lines, ElementsAre("a", "b"));
  EXPECT_THAT(tail.next(2).lines, ElementsAre("c"));
}

TEST_F(LineTailTest, ReplacedFileIsReadFromItsBeginning) {
  add("a\nb\n");
  LineTail tail(path());
  EXPECT_FALSE(tail.next().is_anew);
  std::ofstream(folder_ / "other") << "a\nc\nd\n";
  std::filesystem::rename(folder_ / "other", path());
  const LineTail::News news = tail.next();
  EXPECT_TRUE(news.is_anew);
  EXPECT_THAT(news.lines, ElementsAre("a", "c", "d"));
}

}  // namespace
}  // namespace runner
