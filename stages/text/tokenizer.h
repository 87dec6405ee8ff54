#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/result.h"
#include "stages/text/byte_pairs.h"
#include "stages/text/pieces.h"
#include "stages/text/vocabulary.h"

namespace stages {

struct TokenizerOptions {
  /// merges.txt, or bpe_simple_vocab_16e6.txt.gz as OpenAI published it. Without any, each byte is a token.
  std::optional<std::filesystem::path> merges;
  std::optional<std::filesystem::path> vocabulary;  ///< vocab.json; without it the merges number the tokens
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
  /// kMissingWeights, or kDamagedWeights with the line that is wrong, at "/merges" or "/vocabulary".
  static runner::Result<Tokenizer> read(const TokenizerOptions& options);

  /// The tokens of `text` between the start and the end, however many they are. transformers takes `<|startoftext|>`
  /// and `<|endoftext|>` in a text for what they say, open_clip `<start_of_text>` and `<end_of_text>`. kBadAnnotations
  /// where the text is not UTF-8, or one that OpenAI's cleaning may change.
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

/// Leaves `tokens`, which Tokenizer::encode() has made, in a context of `length` tokens, at least 3: the first
/// `length` - 1 of them and the end. Is anything left out?
bool cut_tokens(std::vector<std::int32_t>& tokens, std::size_t length);

}  // namespace stages
