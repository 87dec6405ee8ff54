#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// The tokens of a text before any merge: one for each byte, and another one for each byte at the
/// end of a piece.
struct ByteTokens {
  std::array<std::int32_t, 256> within{}, at_end{};
};

/// Two tokens that are merged if they are adjacent.
struct BytePair {
  std::int32_t left = 0, right = 0, joined = 0;
};

/// Byte-pair encoding (Sennrich and others, 2016). Takes 16 bytes per pair, and time n log n for a
/// piece of n bytes.
class BytePairs {
 public:
  /// `pairs` in merge order. Each pair occurs once, and its two tokens are bytes, or results of
  /// earlier pairs.
  BytePairs(const ByteTokens& bytes, const std::vector<BytePair>& pairs);

  const ByteTokens& bytes() const { return bytes_; }
  /// The pairs as given.
  std::vector<BytePair> pairs() const;

  /// Appends the tokens of `piece`, one word of a text, to `ids`.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct Rule {
    std::uint64_t pair = 0;
    std::int32_t rank = 0, joined = 0;
  };
  /// Null if the two are not merged.
  const Rule* rule(std::int32_t left, std::int32_t right) const;

  ByteTokens bytes_;
  std::vector<Rule> rules_;  // sorted by pair
};

/// The tokens of CLIP: 256 bytes, the same at the end of a piece, the results of merges, and the
/// start and end tokens.
struct Vocabulary {
  ByteTokens bytes;
  std::vector<BytePair> pairs;  ///< in merge order
  std::int32_t start = 0, end = 0;
  std::int32_t size = 0;
};

/// Only this many pairs of a list are used: the list that CLIP's authors published is five times as
/// long as their vocabulary.
inline constexpr std::size_t kUsedMerges = 48'894;

/// The vocabulary of a list of merges: a line with '#version', then one pair per line, the two
/// parts of a token in GPT-2's symbols for bytes, with </w> at the end of a piece. Tokens are
/// numbered in the order above. The text is not trusted. Throws std::invalid_argument with the
/// fault and its place, in half a sentence.
Vocabulary read_merges(std::string_view text);

/// The same with token numbers from `json`, an object from tokens to numbers. It must have exactly
/// the tokens of the merges, numbered from 0 without a gap. Throws the same.
Vocabulary read_merges(std::string_view text, std::string_view json);

/// The list of merges from which read_merges() makes the pairs, and all token numbers as JSON: the
/// merges.txt and vocab.json of transformers' tokenizer.
std::string merges_text(const Vocabulary& vocabulary);
std::string numbers_text(const Vocabulary& vocabulary);

/// The character classes of a tokenizer; the Unicode tables are utf8proc's.
enum class CharacterClass { kSpace, kLetter, kNumber, kOther };

CharacterClass character_class(char32_t character);

/// Is `character` a Unicode compatibility form, such as a ligature or a full-width letter?
bool is_compatibility_form(char32_t character);

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< its length in UTF-8
};

/// The first character of `text`, which is well-formed UTF-8 and not empty.
CodePoint first_code_point(std::string_view text);

void append_utf8(char32_t character, std::string& text);

/// Appends `character` in lower case, independent of context: Σ becomes σ, also at the end of a
/// word.
void append_lower_case(char32_t character, std::string& text);

/// `text`, which is well-formed UTF-8, in Unicode's normalization form C.
std::string composed(std::string_view text);

/// Equal for texts (well-formed UTF-8) that differ only in letter case or in how accents are
/// encoded.
std::string folded(std::string_view text);

}  // namespace stages
