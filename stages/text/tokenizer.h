#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/text/vocabulary.h"

namespace stages {

/// How a text is cleaned before it is split: as transformers' tokenizer does, or as OpenAI's and
/// open_clip's do.
enum class TextCleaning { kTransformers, kOpenai };

/// The marks that open_clip reads as the start and the end of a text if a piece begins with one.
inline constexpr std::array<std::string_view, 2> kOpenaiMarks = {"<start_of_text>",
                                                                 "<end_of_text>"};

/// `text`, which is well-formed UTF-8, cleaned. White space is unchanged: it only separates pieces.
/// kOpenai repairs wrongly decoded text, resolves HTML entities and replaces typographic
/// characters. Here the entities of html_entity() are resolved. A text that OpenAI's cleaning may
/// change in any other way is refused: throws std::invalid_argument naming the responsible
/// character, in half a sentence.
std::string cleaned(std::string_view text, TextCleaning cleaning);

/// Calls `use` with every piece of a cleaned text, in order: an English contraction, a run of
/// letters, a single number, or a run of anything else except white space. With kOpenai,
/// kOpenaiMarks are pieces of their own.
void for_pieces(std::string_view text, TextCleaning cleaning,
                const std::function<void(std::string_view piece)>& use);

struct TokenizerOptions {
  /// merges.txt, or bpe_simple_vocab_16e6.txt.gz as OpenAI published it. Without it, each byte is a
  /// token.
  std::optional<std::filesystem::path> merges;
  std::optional<std::filesystem::path>
      vocabulary;  ///< vocab.json; without it, tokens are numbered by the merges
  TextCleaning cleaning = TextCleaning::kTransformers;
};

/// CLIP's tokenizer: the same tokens as transformers' or open_clip's.
///
///   const auto tokenizer = Tokenizer::read({.merges = "merges.txt"});
///   auto tokens = tokenizer->encode("a photo of a cat");  // 49406 320 1125 539 320 2368 49407
///   const bool was_cut = cut_tokens(*tokens, 77);
///
/// Takes a megabyte, is immutable, and may be used by several threads at once.
class Tokenizer {
 public:
  /// kMissingWeights, or kDamagedWeights with the malformed line, at "/merges" or "/vocabulary".
  static runner::Result<Tokenizer> read(const TokenizerOptions& options);

  /// The tokens of `text` between the start and the end, without truncation. transformers treats
  /// `<|startoftext|>` and `<|endoftext|>` in a text as special tokens, open_clip `<start_of_text>`
  /// and `<end_of_text>`. kBadAnnotations if the text is not UTF-8, or is one that OpenAI's
  /// cleaning may change.
  runner::Result<std::vector<std::int32_t>> encode(std::string_view text) const;

  std::int32_t start() const { return start_; }
  std::int32_t end() const { return end_; }
  /// The number of tokens; they are numbered from 0.
  std::int32_t size() const { return size_; }
  Vocabulary vocabulary() const { return {pairs_.bytes(), pairs_.pairs(), start_, end_, size_}; }

 private:
  explicit Tokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {}
  void encode_plain(std::string_view text, std::vector<std::int32_t>& tokens) const;

  BytePairs pairs_;
  std::int32_t start_ = 0, end_ = 0, size_ = 0;
  TextCleaning cleaning_{};
};

/// Truncates `tokens`, made by Tokenizer::encode(), to a context of `length` tokens, at least 3:
/// the first `length` - 1 of them and the end. Returns whether anything was cut.
bool cut_tokens(std::vector<std::int32_t>& tokens, std::size_t length);

/// Longer vocabulary files are refused, compressed or not; CLIP's longest has 3 MB.
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{16} << 20;

/// The text of a vocabulary file, which may be gzipped, whatever its name. kMissingWeights if there
/// is no such file, kDamagedWeights if it is unreadable, damaged or too long.
runner::Result<std::string> read_vocabulary_file(const std::filesystem::path& file);

/// The HTML entity that `text` begins with, and its length: &amp; &lt; &gt; &quot; &apos; in lower
/// case, or a numeric one, &#233; or &#xE9;, of printable ASCII or of a character beyond Latin-1's
/// control codes. nullopt if `text` begins with none of these, even if it begins with another
/// entity.
std::optional<CodePoint> html_entity(std::string_view text);

/// May HTML find an entity at the ampersand before `text`? HTML knows many without the semicolon,
/// but none whose name has fewer than two letters.
bool may_be_entity(std::string_view text);

}  // namespace stages
