#include "stages/text/tokenizer.h"

#include <string>

#include <gtest/gtest.h>

namespace stages {
namespace {

/// Returns the character's code point and the length in bytes, such as "39 in 5", or "none".
std::string found(std::string_view text) {
  const auto entity = html_entity(text);
  if (!entity) return "none";
  return std::to_string(static_cast<unsigned>(entity->value)) + " in " +
         std::to_string(entity->bytes);
}

TEST(HtmlEntity, ShortNamesAndNumbersAreRecognized) {
  EXPECT_EQ(found("&amp;&lt;"), "38 in 5");
  EXPECT_EQ(found("&lt;"), "60 in 4");
  EXPECT_EQ(found("&gt;"), "62 in 4");
  EXPECT_EQ(found("&quot; x"), "34 in 6");
  EXPECT_EQ(found("&apos;s"), "39 in 6");
  EXPECT_EQ(found("&#39;s"), "39 in 5");
  EXPECT_EQ(found("&#x00E9;"), "233 in 8");
  EXPECT_EQ(found("&#Xe9;"), "233 in 6");
  EXPECT_EQ(found("&#32;"), "32 in 5");
}

TEST(HtmlEntity, UnsupportedEntitiesAreNotRecognized) {
  for (const char* const text :
       {"",       "&",      "amp;",   "&amp",     "&AMP;",      "&eacute;",     "&#;",
        "&#x;",   "&#39",   "&#39 ;", "&#-1;",    "&#xg;",      "&#+39;",       "&#127;",
        "&#150;", "&#160;", "&#191;", "&#xD800;", "&#x110000;", "&#000000039;", "&#99999999999;"})
    EXPECT_EQ(found(text), "none") << text;
  EXPECT_EQ(found("&#55295;"), "55295 in 8") << "the last code point before the surrogates";
  EXPECT_EQ(found("&#xC0;"), "192 in 6");
}

TEST(HtmlEntity, TwoCharactersDecideIfItMayBeAnEntity) {
  for (const char* const text : {"amp;", "lt", "gt5", "T1;", "#39;", "#"})
    EXPECT_TRUE(may_be_entity(text)) << text;
  for (const char* const text : {"", " b", "T", "T;", "T, x", "5;", "55", "\u00e9t"})
    EXPECT_FALSE(may_be_entity(text)) << text;
}

}  // namespace
}  // namespace stages
