#include "runner/parent/cli/completion/shell_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;

constexpr std::string_view kBreaks = " \t\n\"'><=;|&(:";  // as in bash

ShellLine read(std::string_view line) { return read_shell_line(line, kBreaks); }
std::string replacement(std::string_view line, std::string_view text) {
  return shell_replacement(read(line), text);
}

TEST(ShellLine, FindsTheWordsAndTheOneAtTheCursor) {
  EXPECT_THAT(read("retort run  a=1 b").words, ElementsAre("retort", "run", "a=1", "b"));
  EXPECT_THAT(read("retort run ").words, ElementsAre("retort", "run", ""));
  EXPECT_THAT(read("").words, ElementsAre(""));
}

TEST(ShellLine, ReadsQuotesAndBackslashes) {
  EXPECT_THAT(read(R"(a 'b c' "d e" f\ g 'h\i' "j\"k" '')").words,
              ElementsAre("a", "b c", "d e", "f g", "h\\i", "j\"k", ""));
  EXPECT_TRUE(read("a 'b c").in_quotes);
  EXPECT_FALSE(read("a 'b c'").in_quotes);
}

TEST(ShellLine, OnlyTextAfterABreakIsReplaced) {
  EXPECT_EQ(replacement("retort run data=fl", "data=flowers"), "flowers");
  EXPECT_EQ(replacement("retort run a:b", "a:bc"), "bc");
  EXPECT_EQ(replacement("retort run fl", "flowers"), "flowers");
  EXPECT_EQ(read_shell_line("retort data=fl", " ").kept, 0u);
}

TEST(ShellLine, BreaksInQuotesDoNotCount) {
  EXPECT_EQ(replacement("retort 'data=fl", "data=flowers"), "data=flowers");
  EXPECT_EQ(replacement("retort data='fl", "data=flowers"), "flowers");
  EXPECT_EQ(replacement("retort data\\=fl", "data=flowers"), "data=flowers");
}

TEST(ShellLine, SpecialCharactersAreEscaped) {
  EXPECT_EQ(replacement("retort ro=my", "ro=my photos/"), "my\\ photos/");
  EXPECT_EQ(replacement("retort 'ro=my", "ro=my photos/"), "ro=my photos/");
  EXPECT_EQ(replacement("retort a=", "a=$(b)"), "\\$\\(b\\)");
  EXPECT_EQ(replacement("retort ~da", "~data"), "~data");
}

}  // namespace
}  // namespace runner
