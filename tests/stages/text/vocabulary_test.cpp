#include "stages/text/vocabulary.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stages {
namespace {

const std::string kHead = "#version: 0.2\n";

template <typename... Texts>
std::string problem(const Texts&... texts) {
  try {
    read_merges(texts...);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

/// Returns the tokens of these merges, each with its ID in the published order.
nlohmann::json numbered(const std::vector<std::string>& joined) {
  std::vector<std::string> symbols, tokens;
  for (int c = 33; c <= 126; ++c) symbols.emplace_back(1, static_cast<char>(c));
  const auto add = [&](int character) {
    symbols.push_back(
        {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))});
  };
  for (int c = 161; c <= 255; ++c) {
    if (c != 173) add(c);
  }
  for (int c = 256; c < 256 + 68; ++c) add(c);
  tokens = symbols;
  for (const std::string& symbol : symbols) tokens.push_back(symbol + "</w>");
  tokens.insert(tokens.end(), joined.begin(), joined.end());
  tokens.insert(tokens.end(), {"<|startoftext|>", "<|endoftext|>"});
  nlohmann::json json;
  for (std::size_t i = 0; i < tokens.size(); ++i) json[tokens[i]] = i;
  return json;
}

TEST(VocabularyText, AssignsIdsToBytesThenMergesThenSpecialTokens) {
  const Vocabulary vocabulary = read_merges(kHead + "a b\r\nab c</w>\r\n");
  EXPECT_EQ(vocabulary.bytes.within['!'], 0);
  EXPECT_EQ(vocabulary.bytes.at_end['!'], 256);
  EXPECT_EQ(vocabulary.bytes.within['a'], 64);
  EXPECT_EQ(vocabulary.bytes.within[161], 94)
      << "the first byte after ASCII that represents itself";
  EXPECT_EQ(vocabulary.bytes.within[255], 187);
  EXPECT_EQ(vocabulary.bytes.within[0], 188);
  EXPECT_EQ(vocabulary.bytes.within[173], 255);
  ASSERT_EQ(vocabulary.pairs.size(), 2u);
  EXPECT_EQ(vocabulary.pairs[1].left, 512);
  EXPECT_EQ(vocabulary.pairs[1].right, 256 + 66);
  EXPECT_EQ(vocabulary.pairs[1].joined, 513);
  EXPECT_EQ(vocabulary.start, 514);
  EXPECT_EQ(vocabulary.end, 515);
  EXPECT_EQ(vocabulary.size, 516);
}

TEST(VocabularyText, ReportsTheInvalidLine) {
  EXPECT_EQ(problem(""), "it is empty");
  EXPECT_EQ(problem("a b\n"), "line 1: it is not the '#version' line that starts a list of merges");
  for (const char* const line : {"", "ab", "a  b", " b", "a ", "a b c"}) {
    EXPECT_EQ(problem(kHead + "a b\n" + line + "\nb c\n"),
              "line 3: it is not two tokens separated by a space");
  }
  EXPECT_EQ(problem(kHead + "a b\nabc d\n"),
            "line 3: 'abc' is neither a byte nor the result of an earlier line");
  EXPECT_EQ(problem(kHead + "a b\na \u2014\n"),
            "line 3: '\u2014' is neither a byte nor the result of an earlier line");
  EXPECT_EQ(problem(kHead + "a b\nb c\na b\n"), "line 4: 'ab' is already a token");
  EXPECT_EQ(problem(kHead + "a b\na \xff\n"), "it is not UTF-8 at byte 21");
}

TEST(VocabularyText, UsesAsManyPairsAsClip) {
  std::string merges = kHead;
  std::size_t pairs = 0;
  // Adds all pairs of printable ASCII characters, then the same pairs at the end of a word.
  for (const char* const end : {"", "</w>"}) {
    for (int left = 33; left <= 126; ++left) {
      for (int right = 33; right <= 126; ++right, ++pairs)
        merges +=
            std::string(1, static_cast<char>(left)) + " " + static_cast<char>(right) + end + "\n";
    }
  }
  // Adds pairs with one more character each, until there are more than are used.
  for (int first = 33; pairs <= kUsedMerges; ++first) {
    for (int left = 33; left <= 126; ++left) {
      for (int right = 33; right <= 126; ++right, ++pairs)
        merges += std::string(1, static_cast<char>(first)) + static_cast<char>(left) + " " +
                  static_cast<char>(right) + "\n";
    }
  }
  EXPECT_EQ(read_merges(merges).size, 49408);
  EXPECT_EQ(read_merges(merges + "what follows is never looked at\n").size, 49408);
}

TEST(VocabularyIds, ReplaceTheDefaultTokenIds) {
  nlohmann::json json = numbered({"ab"});
  std::swap(json["ab"], json["a"]);
  std::swap(json["<|startoftext|>"], json["!"]);
  const Vocabulary vocabulary = read_merges(kHead + "a b\n", json.dump());
  EXPECT_EQ(vocabulary.bytes.within['a'], 512);
  EXPECT_EQ(vocabulary.pairs[0].left, 512);
  EXPECT_EQ(vocabulary.pairs[0].right, 65);
  EXPECT_EQ(vocabulary.pairs[0].joined, 64);
  EXPECT_EQ(vocabulary.start, 0);
  EXPECT_EQ(vocabulary.end, 514);
}

TEST(VocabularyIds, MustFitTheMerges) {
  const std::string merges = kHead + "a b\n";
  const nlohmann::json good = numbered({"ab"});
  EXPECT_EQ(problem(merges, good.dump()), "");
  nlohmann::json json = good;
  json.erase("ab");
  EXPECT_EQ(problem(merges, json.dump()), "it lacks the token 'ab' of the merges");
  json = good;
  json["abc"] = 515;
  EXPECT_EQ(problem(merges, json.dump()), "it has the token 'abc', which no merge produces");
  json = good;
  json["ab"] = 515;
  EXPECT_EQ(problem(merges, json.dump()),
            "the number of 'ab' is 515, but the 515 tokens are numbered from 0");
  json["ab"] = "512";
  EXPECT_EQ(problem(merges, json.dump()),
            "the number of 'ab' is \"512\", but the 515 tokens are numbered from 0");
  json["ab"] = -1;
  EXPECT_EQ(problem(merges, json.dump()),
            "the number of 'ab' is -1, but the 515 tokens are numbered from 0");
  json["ab"] = 64;
  EXPECT_EQ(problem(merges, json.dump()), "'ab' has the same number as 'a'");
  EXPECT_EQ(problem(merges, std::string("[]")),
            "it is not a JSON object of tokens and their numbers");
  EXPECT_EQ(problem(merges, std::string("{\"a\":")), "it is not JSON");
  EXPECT_EQ(problem(merges, std::string("{\"a\":1,\"a\":2}")), "the name 'a' appears twice");
  EXPECT_EQ(problem(merges, std::string("{\"a\":[[1]]}")), "it is nested too deeply");
}

}  // namespace
}  // namespace stages
