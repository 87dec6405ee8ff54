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

/// How a text is cleaned before it is split: as in transformers' tokenizer, or as in OpenAI's and
/// open_clip's.
enum class TextCleaning { kTransformers, kOpenai };

/// The marks that open_clip treats as the start and the end of a text, if a piece begins with them.
inline constexpr std::array<std::string_view, 2> kOpenaiMarks = {"<start_of_text>",
                                                                 "<end_of_text>"};

/// Returns `text`, which must be well-formed UTF-8, after cleaning. White space is not changed,
/// since it only separates pieces. OpenAI's cleaning repairs wrongly decoded text, resolves HTML
/// entities and replaces typographic characters. This function only resolves the entities of
/// html_entity(). Throws std::invalid_argument, with a clause that names the character, if OpenAI's
/// cleaning might change the text in any other way.
std::string cleaned(std::string_view text, TextCleaning cleaning);

/// Calls `use` for every piece of a cleaned text, in order: an English contraction, a run of
/// letters, a single number, or a run of other characters except white space. With kOpenai, each of
/// kOpenaiMarks is a separate piece.
void for_pieces(std::string_view text, TextCleaning cleaning,
                const std::function<void(std::string_view piece)>& use);

struct TokenizerOptions {
  /// merges.txt, or bpe_simple_vocab_16e6.txt.gz as published by OpenAI; nullopt: each byte is a
  /// token.
  std::optional<std::filesystem::path> merges;
  /// vocab.json; nullopt: the merges determine the token IDs.
  std::optional<std::filesystem::path> vocabulary;
  TextCleaning cleaning = TextCleaning::kTransformers;
};

/// CLIP's tokenizer. It produces the same tokens as transformers' or open_clip's.
///
///   const auto tokenizer = Tokenizer::read({.merges = "merges.txt"});
///   auto tokens = tokenizer->encode("a photo of a cat");  // 49406 320 1125 539 320 2368 49407
///   const bool was_cut = cut_tokens(*tokens, 77);
///
/// Uses about a megabyte of memory. Immutable and thread-safe.
class Tokenizer {
 public:
  /// Reads the files specified in `options`. Returns kMissingWeights, or kDamagedWeights with the
  /// malformed line, at "/merges" or "/vocabulary".
  static runner::Result<Tokenizer> read(const TokenizerOptions& options);

  /// Returns the tokens of `text` including the start and end tokens, without truncation. As in
  /// transformers, `<|startoftext|>` and `<|endoftext|>` in a text are special tokens; with
  /// kOpenai, `<start_of_text>` and `<end_of_text>` are, as in open_clip. Returns kBadAnnotations
  /// if the text is not UTF-8, or if cleaned() rejects it.
  runner::Result<std::vector<std::int32_t>> encode(std::string_view text) const;

  std::int32_t start() const { return start_; }
  std::int32_t end() const { return end_; }
  /// The number of tokens in the vocabulary; token IDs start at 0.
  std::int32_t size() const { return size_; }
  Vocabulary vocabulary() const { return {pairs_.bytes(), pairs_.pairs(), start_, end_, size_}; }

 private:
  explicit Tokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {}
  void encode_plain(std::string_view text, std::vector<std::int32_t>& tokens) const;

  BytePairs pairs_;
  std::int32_t start_ = 0, end_ = 0, size_ = 0;
  TextCleaning cleaning_{};
};

/// Truncates `tokens`, from Tokenizer::encode(), to a context of `length` tokens, at least 3: keeps
/// the first `length` - 1 tokens and the end token. Returns whether anything was cut.
bool cut_tokens(std::vector<std::int32_t>& tokens, std::size_t length);

/// Longer vocabulary files are rejected, compressed or not. CLIP's longest is 3 MB.
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{16} << 20;

/// Returns the text of a vocabulary file, which may be gzipped, regardless of its name. Returns
/// kMissingWeights if there is no such file, and kDamagedWeights if it is unreadable, damaged or
/// too long.
runner::Result<std::string> read_vocabulary_file(const std::filesystem::path& file);

/// Returns the character and the length of the HTML entity at the beginning of `text`: &amp; &lt;
/// &gt; &quot; &apos; in lower case, or a numeric entity (&#233; or &#xE9;) for printable ASCII or
/// a character at or above U+00C0. Returns nullopt if `text` begins with none of these, even if it
/// begins with another entity.
std::optional<CodePoint> html_entity(std::string_view text);

/// True if HTML might recognize an entity at the ampersand before `text`. HTML has many entities
/// without a semicolon, but none with a name of fewer than two letters.
bool may_be_entity(std::string_view text);

}  // namespace stages
