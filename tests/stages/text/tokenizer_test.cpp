#include "stages/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/refused.h"
#include "tests/support/shared_data.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using runner::ErrorCode;
using testing::ElementsAre;

// 'a' is token 64, 't' 83, 'c' 66; 320 and 339 are "a</w>" and "t</w>"; the merges are 512, 513 and
// 514, followed by the special tokens.
constexpr const char* kTinyMerges = "#version: 0.2\na t</w>\nc at</w>\nc a\n";

class TinyTokenizer : public testing::Test {
 protected:
  Tokenizer tokenizer(TextCleaning cleaning = TextCleaning::kTransformers) const {
    auto read =
        Tokenizer::read({.merges = folder_.write("merges.txt", kTinyMerges), .cleaning = cleaning});
    EXPECT_TRUE(read);
    return *std::move(read);
  }
  std::vector<std::int32_t> tokens(const std::string& text,
                                   TextCleaning cleaning = TextCleaning::kTransformers) const {
    auto tokens = tokenizer(cleaning).encode(text);
    EXPECT_TRUE(tokens);
    return *std::move(tokens);
  }

  TemporaryFolder folder_;
};

TEST_F(TinyTokenizer, MergesPairsInOrder) {
  EXPECT_THAT(tokens("cat at ca"), ElementsAre(515, 513, 512, 66, 320, 516));
  EXPECT_THAT(tokens("catt"), ElementsAre(515, 514, 83, 339, 516));
  EXPECT_EQ(tokenizer().size(), 517);
}

TEST_F(TinyTokenizer, EmptyTextHasOnlyStartAndEnd) {
  EXPECT_THAT(tokens(""), ElementsAre(515, 516));
  EXPECT_THAT(tokens(" \t\r\n\u2028 "), ElementsAre(515, 516));
}

TEST_F(TinyTokenizer, SpecialTokensAreRecognizedAfterCleaning) {
  EXPECT_THAT(tokens("a<|endoftext|><|startoftext|>a"), ElementsAre(515, 320, 516, 515, 320, 516));
  EXPECT_THAT(tokens("<start_of_text>").size(), 17);
  EXPECT_THAT(tokens("a<start_of_text> <end_of_text>a", TextCleaning::kOpenai),
              ElementsAre(515, 320, 515, 516, 320, 516));
  EXPECT_THAT(tokens("<|endoftext|>", TextCleaning::kOpenai).size(), 15);
  EXPECT_THAT(tokens("<|<|endoftext|").size(), 16) << "similar text is not a special token";
}

TEST_F(TinyTokenizer, RejectsNonUtf8Text) {
  EXPECT_REFUSED(tokenizer().encode("caf\xe9"), kBadAnnotations, "", "'caf?'", "byte 4");
}

TEST_F(TinyTokenizer, RejectsTextThatOpenAiWouldRepair) {
  EXPECT_REFUSED(tokenizer(TextCleaning::kOpenai).encode("Tom &amp Jerry"), kBadAnnotations, "",
                 "'Tom &amp Jerry'", "U+0026", "cleaning: transformers");
  EXPECT_TRUE(tokenizer().encode("Tom &amp Jerry"));
}

TEST_F(TinyTokenizer, TruncatesTextToTheContext) {
  auto cat = tokens("cat cat a");
  EXPECT_FALSE(cut_tokens(cat, 5));
  EXPECT_THAT(cat, ElementsAre(515, 513, 513, 320, 516));
  EXPECT_TRUE(cut_tokens(cat, 4));
  EXPECT_THAT(cat, ElementsAre(515, 513, 513, 516));
}

TEST_F(TinyTokenizer, ReportsTheInvalidFile) {
  const auto merges = folder_.write("merges.txt", "#version: 0.2\na t</w>\nat\n");
  EXPECT_REFUSED(Tokenizer::read({.merges = merges}), kDamagedWeights, "/merges", merges.string(),
                 "line 3");

  const auto good = folder_.write("good.txt", kTinyMerges),
             json = folder_.write("vocab.json", "{}");
  EXPECT_REFUSED(Tokenizer::read({.merges = good, .vocabulary = json}), kDamagedWeights,
                 "/vocabulary", json.string(), "'!'");

  EXPECT_REFUSED(Tokenizer::read({.merges = folder_ / "none.txt"}), kMissingWeights, "/merges",
                 "none.txt");
}

TEST(PublishedTokenizer, MatchesThePublishedTokens) {
  const auto merges = shared_data("data/clip/bpe_simple_vocab_16e6.txt.gz");
  RETORT_NEEDS_SHARED(merges);
  const auto tokenizer = Tokenizer::read({.merges = merges});
  ASSERT_TRUE(tokenizer);
  const std::vector<std::pair<std::string, std::vector<std::int32_t>>> published = {
      {"a photo of a cat", {320, 1125, 539, 320, 2368}},
      {"a photo of a Toyota Camry car", {320, 1125, 539, 320, 8908, 46472, 1615}},
      {"a photo of a Mercedes-Benz E-Class car",
       {320, 1125, 539, 320, 10685, 268, 13470, 324, 268, 1874, 1615}},
      {"a photo of a BMW 320i car", {320, 1125, 539, 320, 7869, 274, 273, 271, 328, 1615}},
      {"a photo of a AM General Hummer SUV 2000.",
       {320, 1125, 539, 320, 687, 3658, 845, 7508, 15985, 273, 271, 271, 271, 269}},
      {"a photo of a Ram C/V Cargo Van Minivan 2012.",
       {320, 1125, 539, 320, 2007, 322, 270, 341, 12490, 2451, 1810, 2451, 273, 271, 272, 273,
        269}},
      {"it's Citroën DS5", {585, 568, 27941, 29526, 333, 646, 276}},
  };
  for (auto [text, expected] : published) {
    expected.insert(expected.begin(), 49406);
    expected.push_back(49407);
    const auto tokens = tokenizer->encode(text);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(*tokens, expected) << text;
  }
}

}  // namespace
}  // namespace stages
