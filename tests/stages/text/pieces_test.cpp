#include "stages/text/tokenizer.h"

#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stages {
namespace {

using testing::ElementsAre;

std::vector<std::string> pieces(const std::string& text,
                                TextCleaning cleaning = TextCleaning::kTransformers) {
  std::vector<std::string> pieces;
  for_pieces(text, cleaning, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::string refusal(const std::string& text) {
  try {
    cleaned(text, TextCleaning::kOpenai);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(Pieces, AreWordsSingleDigitsAndTheRest) {
  EXPECT_THAT(pieces("a photo, 2012 \u2014 tr\u00e8s \u65e5\u672c\u8a9e\u00b2\u00bd!!"),
              ElementsAre("a", "photo", ",", "2", "0", "1", "2", "\u2014", "tr\u00e8s",
                          "\u65e5\u672c\u8a9e", "\u00b2", "\u00bd", "!!"));
  EXPECT_THAT(
      pieces("it's we'll they've '' 'x rock'n"),
      ElementsAre("it", "'s", "we", "'ll", "they", "'ve", "''", "'", "x", "rock", "'", "n"));
  EXPECT_THAT(pieces("!'s"), ElementsAre("!'", "s"))
      << "a run of punctuation may include the start of a contraction";
}

TEST(Pieces, AreSplitAtEveryUnicodeSpace) {
  EXPECT_THAT(pieces("a\u00a0b\u3000c\u2028d\u0085e\tf"),
              ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_THAT(pieces("a\u200bb\u180ec"), ElementsAre("a", "\u200b", "b", "\u180e", "c"))
      << "characters without width are not spaces";
}

TEST(Pieces, SpecialTokenAtTheStartOfAPieceIsKeptWhole) {
  EXPECT_THAT(pieces("<|endoftext|>!"), ElementsAre("<|", "endoftext", "|>", "!"));
  EXPECT_THAT(pieces("!<|endoftext|>!"), ElementsAre("!<|", "endoftext", "|>!"));
  EXPECT_THAT(pieces("<|endoftext|>!", TextCleaning::kOpenai),
              ElementsAre("<|", "endoftext", "|>!"));
  EXPECT_THAT(pieces("<end_of_text>!", TextCleaning::kOpenai), ElementsAre("<end_of_text>", "!"));
  EXPECT_THAT(pieces("<end_of_text>"), ElementsAre("<", "end", "_", "of", "_", "text", ">"));
}

TEST(CleanedText, IsComposedAndLowercase) {
  EXPECT_EQ(cleaned("Citroe\u0308n \u212bNGSTR\u00d6M", TextCleaning::kTransformers),
            "citro\u00ebn \u00e5ngstr\u00f6m");
  EXPECT_EQ(cleaned("\u1112\u1161\u11ab", TextCleaning::kTransformers), "\ud55c");
  EXPECT_EQ(cleaned("\u03a3\u03a3 \u0130", TextCleaning::kTransformers), "\u03c3\u03c3 i\u0307")
      << "each character on its own";
  EXPECT_EQ(cleaned(std::string("a\0B", 3), TextCleaning::kTransformers), std::string("a\0b", 3));
}

TEST(CleanedText, OpenAiCleaningDecodesEntities) {
  const auto openai = [](const std::string& text) { return cleaned(text, TextCleaning::kOpenai); };
  EXPECT_EQ(openai("Tom &amp; Jerry &lt;3 &gt; &quot;x&quot; it&apos;s it&#39;s it&#x27;s"),
            "tom & jerry <3 > \"x\" it's it's it's");
  EXPECT_EQ(openai("caf&#233; caf&#xE9; &#1071; &#00065;"), "caf\u00e9 caf\u00e9 \u044f a");
  EXPECT_EQ(openai("AT&amp;T, AT&T, R&D & H&M; &"), "at&t, at&t, r&d & h&m; &")
      << "no name has a single letter";
  EXPECT_EQ(cleaned("Tom &amp; Jerry", TextCleaning::kTransformers), "tom &amp; jerry");
}

TEST(CleanedText, OpenAiCleaningRejectsTextThatNeedsRepair) {
  for (const char* const text :
       {"A photo of a Citro\u00ebn DS5, \u0421 & so on\t\"50%\"", "GLASSES & HATS", "na\u00efve"})
    EXPECT_EQ(cleaned(text, TextCleaning::kOpenai), cleaned(text, TextCleaning::kTransformers))
        << text;
  EXPECT_EQ(refusal("\x1b[1m"), "U+001B in it is a control character");
  EXPECT_EQ(refusal("a\vb"), "U+000B in it is a control character");
  EXPECT_EQ(refusal("&eacute;"), "U+0026 in it may begin an HTML entity");
  EXPECT_EQ(refusal("&#150;"), "U+0026 in it may begin an HTML entity") << "a dash";
  EXPECT_EQ(refusal("&#233;&#233;"), "U+00E9 in it may be part of a wrongly decoded character");
  EXPECT_EQ(refusal("R&ampD"), "U+0026 in it may begin an HTML entity")
      << "HTML reads it without a semicolon";
  EXPECT_EQ(refusal("&amp;lt;"), "U+0026 in it may begin an HTML entity")
      << "one entity inside another";
  EXPECT_EQ(refusal("&amp;#38;"), "U+0026 in it may begin an HTML entity");
  EXPECT_EQ(refusal("caf\u00c3\u00a9"), "U+00C3 in it may be replaced");
  EXPECT_EQ(refusal("\u0439\u0439"), "U+0439 in it may be part of a wrongly decoded character");
  EXPECT_EQ(refusal("it\u2019s"), "U+2019 in it may be replaced");
  EXPECT_EQ(refusal("\ufb01ne"), "U+FB01 in it may be replaced");
  EXPECT_EQ(refusal("\u0133s"), "U+0133 in it may be replaced");
  EXPECT_EQ(refusal("\u03a3"), "U+03A3 in it may be replaced");
}

}  // namespace
}  // namespace stages
