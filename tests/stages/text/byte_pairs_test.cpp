#include "stages/text/vocabulary.h"

#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stages {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<std::int32_t>;

/// Each byte is its own token, plus 256 at the end of a piece.
ByteTokens byte_tokens() {
  ByteTokens bytes;
  std::iota(bytes.within.begin(), bytes.within.end(), 0);
  std::iota(bytes.at_end.begin(), bytes.at_end.end(), 256);
  return bytes;
}

Tokens encoded(const BytePairs& pairs, const std::string& piece) {
  Tokens tokens;
  pairs.encode(piece, tokens);
  return tokens;
}

TEST(BytePairs, AreMergedInOrderOfTheirRank) {
  const BytePairs pairs(byte_tokens(), {{'b', 'c', 600}, {'a', 'b', 601}, {601, 'c', 602}});
  EXPECT_THAT(encoded(pairs, "abcabx"), ElementsAre('a', 600, 601, 256 + 'x'));
}

TEST(BytePairs, OverlappingPairsAreMergedFromTheLeft) {
  const BytePairs pairs(byte_tokens(), {{'a', 'a', 600}, {600, 600, 601}});
  EXPECT_THAT(encoded(pairs, "aaaab"), ElementsAre(601, 256 + 'b'));
  EXPECT_THAT(encoded(pairs, "aaab"), ElementsAre(600, 'a', 256 + 'b'));
  EXPECT_THAT(encoded(pairs, "aaa"), ElementsAre(600, 256 + 'a'))
      << "the last byte of a piece is a different token";
}

TEST(BytePairs, AcceptLongPieces) {
  std::vector<BytePair> doubled = {{'a', 'a', 600}};
  for (std::int32_t i = 600; i < 610; ++i) doubled.push_back({i, i, i + 1});
  const BytePairs pairs(byte_tokens(), doubled);
  const Tokens tokens = encoded(pairs, std::string(1 << 20, 'a') + "b");
  ASSERT_EQ(tokens.size(), (1u << 20) / 2048 + 1);
  EXPECT_EQ(tokens.front(), 610);
  EXPECT_EQ(tokens.back(), 256 + 'b');
}

}  // namespace
}  // namespace stages
