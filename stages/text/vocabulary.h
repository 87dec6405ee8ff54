#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// The tokens that a text is made of before any are joined: one for each byte, and another one for
/// each byte that ends a piece.
struct ByteTokens {
  std::array<std::int32_t, 256> within{}, at_end{};
};

/// Two tokens that are joined to one where they meet.
struct BytePair {
  std::int32_t left = 0, right = 0, joined = 0;
};

/// Byte-pair encoding (Sennrich and others, 2016). It costs 16 bytes a pair, and for a piece of n
/// bytes n log n.
class BytePairs {
 public:
  /// `pairs` in the order in which they are joined. Each pair stands there once, and its two tokens
  /// are bytes, or made by pairs before it.
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

/// The tokens of CLIP: 256 bytes, the same at the end of a piece, what pairs are joined to, and the
/// two that frame a text.
struct Vocabulary {
  ByteTokens bytes;
  std::vector<BytePair> pairs;  ///< in the order in which they are joined
  std::int32_t start = 0, end = 0;
  std::int32_t size = 0;
};

/// So many pairs of a list are used: the list that CLIP's authors published is five times as long
/// as their vocabulary.
inline constexpr std::size_t kUsedMerges = 48'894;

/// The vocabulary of a list of merges: a line with '#version', then the two parts of a token on
/// each line, written in the symbols that GPT-2 has for bytes, with </w> at the end of a piece.
/// Tokens are numbered in the order above. The text is trusted in nothing. Throws
/// std::invalid_argument saying what is wrong and where, in half a sentence.
Vocabulary read_merges(std::string_view text);

/// The same where `json`, an object from tokens to numbers, numbers the tokens: it must have those
/// of the merges and no other, from 0 without a gap. Throws the same.
Vocabulary read_merges(std::string_view text, std::string_view json);

/// The list of merges that read_merges() makes the pairs of, and the numbers of all tokens as JSON:
/// what transformers' tokenizer keeps as merges.txt and vocab.json.
std::string merges_text(const Vocabulary& vocabulary);
std::string numbers_text(const Vocabulary& vocabulary);

/// What a tokenizer tells characters apart by; the tables of Unicode are utf8proc's.
enum class CharacterClass { kSpace, kLetter, kNumber, kOther };

CharacterClass character_class(char32_t character);

/// Does Unicode call `character` another form of others, as it does a ligature or a full-width
/// letter?
bool is_compatibility_form(char32_t character);

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< that it takes in UTF-8
};

/// The first character of `text`, which is well-formed UTF-8 and not empty.
CodePoint first_code_point(std::string_view text);

void append_utf8(char32_t character, std::string& text);

/// Adds `character` in lower case as it stands by itself: Σ becomes σ, also at the end of a word.
void append_lower_case(char32_t character, std::string& text);

/// `text`, which is well-formed UTF-8, in Unicode's normalization form C.
std::string composed(std::string_view text);

/// The same for texts, well-formed UTF-8, that differ in the case of letters alone, or in how
/// accents are written.
std::string folded(std::string_view text);

}  // namespace stages
