#include "runner/parent/config/trial_list.h"

#include <gtest/gtest.h>

#include <string>

namespace runner {
namespace {

TEST(Wildcard, MatchesStarAndQuestionMark) {
  EXPECT_TRUE(matches_wildcard("", ""));
  EXPECT_TRUE(matches_wildcard("", "**"));
  EXPECT_FALSE(matches_wildcard("", "?"));
  EXPECT_TRUE(matches_wildcard("resnet", "r*n*t"));
  EXPECT_TRUE(matches_wildcard("abab", "*ab"));
  EXPECT_FALSE(matches_wildcard("resnets", "r*n*t"));
  EXPECT_FALSE(matches_wildcard("resnet", "RESNET"));
  EXPECT_FALSE(matches_wildcard("resnet", "resne"));
  EXPECT_FALSE(matches_wildcard("resne", "resnet"));
}

TEST(Wildcard, MatchesSets) {
  EXPECT_TRUE(matches_wildcard("b", "[a-c]"));
  EXPECT_FALSE(matches_wildcard("b", "[!a-c]"));
  EXPECT_FALSE(matches_wildcard("b", "[c-a]"));
  EXPECT_TRUE(matches_wildcard("b", "[!c-a]"));
  EXPECT_TRUE(matches_wildcard("]", "[]a]"));
  EXPECT_FALSE(matches_wildcard("]", "[!]a]"));
  EXPECT_TRUE(matches_wildcard("-", "[a-]"));
  EXPECT_TRUE(matches_wildcard("-", "[-a]"));
  EXPECT_TRUE(matches_wildcard("-", "[a-c-e]"));
  EXPECT_FALSE(matches_wildcard("d", "[a-c-e]"));
}

TEST(Wildcard, OtherPatternSyntaxIsLiteral) {
  EXPECT_TRUE(matches_wildcard("^", "[^a]"));
  EXPECT_FALSE(matches_wildcard("b", "[^a]"));
  EXPECT_FALSE(matches_wildcard("b", "[[:alpha:]]"));
  EXPECT_TRUE(matches_wildcard("a]", "[[:alpha:]]"));
  EXPECT_TRUE(matches_wildcard("\\b", "\\?"));
  EXPECT_TRUE(matches_wildcard("a[b", "a[b"));
  EXPECT_TRUE(matches_wildcard("[]", "[]"));
  EXPECT_TRUE(matches_wildcard("[!]", "[!]"));
}

TEST(Wildcard, MatchesCharactersNotBytes) {
  EXPECT_TRUE(matches_wildcard("\u00e9", "?"));
  EXPECT_TRUE(matches_wildcard("\U0001F600", "[\U0001F5FF-\U0001F601]"));
  EXPECT_FALSE(matches_wildcard("\u00e9", "[!\u00e8-\u00ea]"));
  EXPECT_TRUE(matches_wildcard("\xff", "?"));
}

TEST(Wildcard, ManyStarsAreMatchedQuickly) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  EXPECT_FALSE(matches_wildcard(std::string(2000, 'a'), pattern + "b"));
  EXPECT_TRUE(matches_wildcard(std::string(2000, 'a'), pattern));
}

}  // namespace
}  // namespace runner
