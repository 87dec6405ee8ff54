#include "runner/shared/text/comment_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CommentHeader, EndsAtTheFirstLineThatIsNotAComment) {
  EXPECT_THAT(comment_header("# One.\n#   two\n\n# three\na: 1\n"), ElementsAre("One.", "  two"));
  EXPECT_THAT(comment_header("a: 1 # one\n"), IsEmpty());
  EXPECT_THAT(comment_header("# no newline"), ElementsAre("no newline"));
  EXPECT_THAT(comment_header("#\r\n# one\r\n"), ElementsAre("one"));
}

TEST(CommentHeader, LinesForToolsAreLeftOut) {
  EXPECT_THAT(
      comment_header("# yaml-language-server: $schema=x\n# @package _global_\n#\n# One.\n#\n"),
      ElementsAre("One."));
}

TEST(CommentHeader, FirstSentenceMaySpanLines) {
  EXPECT_EQ(first_sentence("# One of\n# many. Two.\n"), "One of many.");
  EXPECT_EQ(first_sentence("# No stop\n#\n# Next. x\n"), "No stop");
  EXPECT_EQ(first_sentence("a: 1"), "");
}

}  // namespace
}  // namespace runner
