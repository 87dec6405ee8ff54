#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stages/text/byte_pairs.h"

namespace stages {

/// The tokens of CLIP: 256 bytes, the same at the end of a piece, what pairs are joined to, and the two that frame a
/// text.
struct Vocabulary {
  ByteTokens bytes;
  std::vector<BytePair> pairs;  ///< in the order in which they are joined
  std::int32_t start = 0, end = 0;
  std::int32_t size = 0;
};

/// So many pairs of a list are used: the list that CLIP's authors published is five times as long as their vocabulary.
inline constexpr std::size_t kUsedMerges = 48'894;

/// The vocabulary of a list of merges: a line with '#version', then the two parts of a token on each line, written in
/// the symbols that GPT-2 has for bytes, with </w> at the end of a piece. Tokens are numbered in the order above. The
/// text is trusted in nothing. Throws std::invalid_argument saying what is wrong and where, in half a sentence.
Vocabulary read_merges(std::string_view text);

/// The same where `json`, an object from tokens to numbers, numbers the tokens: it must have those of the merges and no
/// other, from 0 without a gap. Throws the same.
Vocabulary read_merges(std::string_view text, std::string_view json);

/// The list of merges that read_merges() makes the pairs of, and the numbers of all tokens as JSON: what transformers'
/// tokenizer keeps as merges.txt and vocab.json.
std::string merges_text(const Vocabulary& vocabulary);
std::string numbers_text(const Vocabulary& vocabulary);

}  // namespace stages
