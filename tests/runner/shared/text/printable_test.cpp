#include "runner/shared/text/printable.h"

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Printable, KeepsTextAndTabs) { EXPECT_EQ(printable("a\tÄ €  😀"), "a\tÄ €  😀"); }

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\rd\x7f"), "a [2Jb c d ");
  EXPECT_EQ(printable("a\u009b2Jb"), "a 2Jb");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a b");
}

TEST(Printable, ReplacesDirectionControls) {
  for (const char* control :
       {"\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069", "\u2028"})
    EXPECT_EQ(printable("a" + std::string(control) + "b"), "a b") << control;
  for (const char* kept : {"\u200d", "\u2027", "\u202f", "\u2065", "\u206a", "\u061b"})
    EXPECT_EQ(printable(kept), kept);
}

TEST(PrintableJson, KeepsEveryCharacter) {
  EXPECT_EQ(printable_json("{\"a\": \"\\u001b \u009b \u202e Ä \x7f\"}\n"),
            "{\"a\": \"\\u001b \\u009b \\u202e Ä \\u007f\"}\n");
}

TEST(Printable, BytesThatAreNotUtf8BecomeQuestionMarks) {
  EXPECT_EQ(printable("a\xff"
                      "b\xc3"),
            "a?b?");
  EXPECT_EQ(printable("\xc0\x9b"), "??");       // an overlong escape
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");  // a surrogate
  EXPECT_EQ(printable("\xe2\x82"), "??");       // cut off
}

TEST(Columns, CountCharactersAndCutBetweenThem) {
  EXPECT_EQ(columns("aÄ€"), 3u);
  EXPECT_EQ(first_columns("aÄ€b", 3), "aÄ€");
  EXPECT_EQ(first_columns("aÄ", 1), "a");
  EXPECT_EQ(first_columns("aÄ", 9), "aÄ");
  EXPECT_EQ(first_columns("a", 0), "");
}

TEST(WithoutMiddle, KeepsBothEnds) {
  EXPECT_EQ(without_middle("encoder.blocks.attention.weight", 13), "encode…weight");
  EXPECT_EQ(without_middle("weight", 6), "weight");
  EXPECT_EQ(without_middle("weights", 1), "…");
  EXPECT_EQ(without_middle("weights", 0), "");
}

TEST(WithoutMiddle, NeverCutsANumber) {
  EXPECT_EQ(without_middle("blocks.12.learning_rate=0.00123", 13), "blocks…");
  EXPECT_EQ(without_middle("learning_rate=0.00123", 17), "learning…=0.00123");
  EXPECT_EQ(without_middle("12345678 samples", 12), "…mples");
}

TEST(WithoutMiddle, CountsCharactersNotBytes) { EXPECT_EQ(without_middle("ÄÖÜäöüß", 5), "ÄÖ…üß"); }

}  // namespace
}  // namespace runner
