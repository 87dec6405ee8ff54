#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stages {

/// The tokens that a text is made of before any are joined: one for each byte, and another one for each byte that ends
/// a piece.
struct ByteTokens {
  std::array<std::int32_t, 256> within{}, at_end{};
};

/// Two tokens that are joined to one where they meet.
struct BytePair {
  std::int32_t left = 0, right = 0, joined = 0;
};

/// Byte-pair encoding (Sennrich and others, 2016). It costs 16 bytes a pair, and for a piece of n bytes n log n.
class BytePairs {
 public:
  /// `pairs` in the order in which they are joined. Each pair stands there once, and its two tokens are bytes, or made
  /// by pairs before it.
  BytePairs(const ByteTokens& bytes, const std::vector<BytePair>& pairs);

  const ByteTokens& bytes() const { return bytes_; }
  /// As they were given.
  std::vector<BytePair> pairs() const;

  /// Adds the tokens of `piece`, which is one word of a text, to `ids`.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct Rule {
    std::uint64_t pair = 0;
    std::int32_t rank = 0, joined = 0;
  };
  /// Null where the two are not joined.
  const Rule* rule(std::int32_t left, std::int32_t right) const;

  ByteTokens bytes_;
  std::vector<Rule> rules_;  // sorted by pair
};

}  // namespace stages
