#include "runner/shared/text/join.h"

#include <vector>

#include <gtest/gtest.h>

namespace runner {
namespace {

const std::vector<std::string> kNames = {"a", "b", "c"};

TEST(Join, SeparatorIsBetweenItems) {
  EXPECT_EQ(join(kNames, ", "), "a, b, c");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(Listed, LongListsAreCounted) {
  EXPECT_EQ(listed(kNames, 3), "a, b, c");
  EXPECT_EQ(listed(kNames, 2), "a, b and 1 more");
  EXPECT_EQ(listed(kNames, 1, "'"), "'a' and 2 more");
  EXPECT_EQ(listed({}, 1, "'"), "");
}

TEST(Either, JoinsItemsWithOr) {
  EXPECT_EQ(either(kNames, 3), "a, b or c");
  EXPECT_EQ(either(std::span(kNames).first(2), 3), "a or b");
  EXPECT_EQ(either(std::span(kNames).first(1), 3), "a");
  EXPECT_EQ(either(kNames, 2), "a, b or 1 more");
}

}  // namespace
}  // namespace runner
