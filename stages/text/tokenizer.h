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

/// What is done to a text before it is divided: as transformers' tokenizer does, or as OpenAI's and
/// open_clip's do.
enum class TextCleaning { kTransformers, kOpenai };

/// What open_clip takes for the start and the end of a text where a piece begins with it.
inline constexpr std::array<std::string_view, 2> kOpenaiMarks = {"<start_of_text>",
                                                                 "<end_of_text>"};

/// `text`, which is well-formed UTF-8, cleaned. White space is left as it is: it only divides.
/// kOpenai repairs what has been decoded wrongly, resolves HTML entities and replaces typographic
/// characters. Here the entities of html_entity.h are resolved; a text to which anything else of
/// that may happen is refused: throws std::invalid_argument saying which character is why, in half
/// a sentence.
std::string cleaned(std::string_view text, TextCleaning cleaning);

/// Calls `use` with every piece of a cleaned text, in order: an English contraction, a run of
/// letters, a single number, or a run of what is neither of these nor white space. kOpenai gives
/// kOpenaiMarks as pieces of their own.
void for_pieces(std::string_view text, TextCleaning cleaning,
                const std::function<void(std::string_view piece)>& use);

struct TokenizerOptions {
  /// merges.txt, or bpe_simple_vocab_16e6.txt.gz as OpenAI published it. Without any, each byte is
  /// a token.
  std::optional<std::filesystem::path> merges;
  std::optional<std::filesystem::path>
      vocabulary;  ///< vocab.json; without it the merges number the tokens
  TextCleaning cleaning = TextCleaning::kTransformers;
};

/// CLIP's tokenizer: what transformers' gives for a text, or open_clip's.
///
///   const auto tokenizer = Tokenizer::read({.merges = "merges.txt"});
///   auto tokens = tokenizer->encode("a photo of a cat");  // 49406 320 1125 539 320 2368 49407
///   const bool was_cut = cut_tokens(*tokens, 77);
///
/// It holds a megabyte, never changes, and may be used by several threads at once.
class Tokenizer {
 public:
  /// kMissingWeights, or kDamagedWeights with the line that is wrong, at "/merges" or
  /// "/vocabulary".
  static runner::Result<Tokenizer> read(const TokenizerOptions& options);

  /// The tokens of `text` between the start and the end, however many they are. transformers takes
  /// `<|startoftext|>` and `<|endoftext|>` in a text for what they say, open_clip `<start_of_text>`
  /// and `<end_of_text>`. kBadAnnotations where the text is not UTF-8, or one that OpenAI's
  /// cleaning may change.
  runner::Result<std::vector<std::int32_t>> encode(std::string_view text) const;

  std::int32_t start() const { return start_; }
  std::int32_t end() const { return end_; }
  /// How many tokens there are; they are numbered from 0.
  std::int32_t size() const { return size_; }
  Vocabulary vocabulary() const { return {pairs_.bytes(), pairs_.pairs(), start_, end_, size_}; }

 private:
  explicit Tokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {}
  void encode_plain(std::string_view text, std::vector<std::int32_t>& tokens) const;

  BytePairs pairs_;
  std::int32_t start_ = 0, end_ = 0, size_ = 0;
  TextCleaning cleaning_{};
};

/// Leaves `tokens`, which Tokenizer::encode() has made, in a context of `length` tokens, at least
/// 3: the first `length` - 1 of them and the end. Is anything left out?
bool cut_tokens(std::vector<std::int32_t>& tokens, std::size_t length);

/// No file of a vocabulary is read that is longer, compressed or not; CLIP's longest has 3 MB.
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{16} << 20;

/// The text of a vocabulary's file, which may be compressed by gzip, whatever its name.
/// kMissingWeights where there is no such file, kDamagedWeights where it cannot be read, is damaged
/// or too long.
runner::Result<std::string> read_vocabulary_file(const std::filesystem::path& file);

/// The HTML entity that `text` begins with, and how long it is: &amp; &lt; &gt; &quot; &apos; in
/// lower case, or a character's number, &#233; or &#xE9;, of printable ASCII or of what lies beyond
/// Latin-1's signs. nullopt where `text` begins with none of these, be it that it begins with
/// another one.
std::optional<CodePoint> html_entity(std::string_view text);

/// May HTML find an entity at the ampersand that stands before `text`? It knows many without the
/// semicolon, and none whose name has fewer than two letters.
bool may_be_entity(std::string_view text);

}  // namespace stages
