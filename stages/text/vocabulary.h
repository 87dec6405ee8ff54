#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// The tokens of a text before any merge: one for each byte within a piece, and another for each
/// byte at the end of a piece.
struct ByteTokens {
  std::array<std::int32_t, 256> within{}, at_end{};
};

/// Two adjacent tokens that are merged, and the resulting token.
struct BytePair {
  std::int32_t left = 0, right = 0, joined = 0;
};

/// Byte-pair encoding (Sennrich et al. 2016). Uses 16 bytes per pair, and O(n log n) time for a
/// piece of n bytes.
class BytePairs {
 public:
  /// `pairs` are in merge order. Each pair must occur only once, and its two tokens must be bytes
  /// or results of earlier pairs.
  BytePairs(const ByteTokens& bytes, const std::vector<BytePair>& pairs);

  const ByteTokens& bytes() const { return bytes_; }
  /// The pairs in merge order.
  std::vector<BytePair> pairs() const;

  /// Appends the tokens of `piece`, one word of a text, to `ids`.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct Rule {
    std::uint64_t pair = 0;
    std::int32_t rank = 0, joined = 0;
  };
  /// Returns the rule that merges two tokens; null if there is none.
  const Rule* rule(std::int32_t left, std::int32_t right) const;

  ByteTokens bytes_;
  std::vector<Rule> rules_;  // sorted by pair
};

/// CLIP's tokens: the 256 bytes within a piece, the 256 bytes at the end of a piece, the results of
/// merges, and the start and end tokens.
struct Vocabulary {
  ByteTokens bytes;
  std::vector<BytePair> pairs;  ///< in merge order
  std::int32_t start = 0, end = 0;
  std::int32_t size = 0;
};

/// Only this many pairs from a list are used: the list published with CLIP is five times as long as
/// its vocabulary.
inline constexpr std::size_t kUsedMerges = 48'894;

/// Parses a list of merges: a line with '#version', then one pair per line. A pair is the two parts
/// of a token in GPT-2's symbols for bytes, with </w> at the end of a piece. Tokens are numbered in
/// the order of Vocabulary. The text is not trusted. Throws std::invalid_argument with a clause
/// that names the error and its line.
Vocabulary read_merges(std::string_view text);

/// Parses a list of merges, with token IDs from `json`, an object that maps tokens to IDs. It must
/// contain exactly the tokens of the merges, numbered from 0 without gaps. Throws like the function
/// above.
Vocabulary read_merges(std::string_view text, std::string_view json);

/// Return the contents of merges.txt and vocab.json for transformers' tokenizer: the list of
/// merges, as read_merges() parses it, and all token IDs, as JSON.
std::string merges_text(const Vocabulary& vocabulary);
std::string numbers_text(const Vocabulary& vocabulary);

/// The character classes of the tokenizer, from utf8proc's Unicode tables.
enum class CharacterClass { kSpace, kLetter, kNumber, kOther };

CharacterClass character_class(char32_t character);

/// True if `character` is a Unicode compatibility form, such as a ligature or a full-width letter.
bool is_compatibility_form(char32_t character);

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< length in UTF-8
};

/// Returns the first character of `text`, which must be well-formed UTF-8 and not empty.
CodePoint first_code_point(std::string_view text);

void append_utf8(char32_t character, std::string& text);

/// Appends `character` in lower case, regardless of context: Σ becomes σ even at the end of a word.
void append_lower_case(char32_t character, std::string& text);

/// Returns `text`, which must be well-formed UTF-8, in Unicode normalization form C.
std::string composed(std::string_view text);

/// Returns a key that is equal for texts that differ only in letter case or in how accents are
/// encoded. `text` must be well-formed UTF-8.
std::string folded(std::string_view text);

}  // namespace stages
