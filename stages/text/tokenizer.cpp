#include "stages/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "stages/text/vocabulary.h"
#include "stages/text/vocabulary_file.h"

namespace stages {
namespace {

using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;
using runner::Result;

// Of transformers: the start, and the end.
constexpr std::array<std::string_view, 2> kTokenMarks = {"<|startoftext|>", "<|endoftext|>"};
constexpr std::size_t kShownText = 60;  // bytes of a text in a message

Diagnostic bad_vocabulary(const std::filesystem::path& file, const std::string& why) {
  return {ErrorCode::kDamagedWeights,
          {},
          "",
          "'" + file.string() + "' is no vocabulary of CLIP: " + why,
          "use the file as published"};
}

constexpr const char *kMerges = "/merges", *kVocabulary = "/vocabulary";  // the options

/// The first of `errors`, at the option whose file it is about.
Diagnostic about(const char* option, Diagnostics errors) {
  errors.front().pointer = option;
  return std::move(errors.front());
}

/// Without the vocabulary, that of the merges alone.
Result<Vocabulary> vocabulary_of(const TokenizerOptions& options) {
  Result<std::string> merges =
      options.merges ? read_vocabulary_file(*options.merges) : Result<std::string>("#version\n");
  if (!merges) return about(kMerges, merges.errors());
  std::optional<Vocabulary> result;
  try {
    result = read_merges(*merges);
  } catch (const std::invalid_argument& error) {
    return about(kMerges, {bad_vocabulary(*options.merges, error.what())});
  }
  if (!options.vocabulary) return *std::move(result);
  const auto json = read_vocabulary_file(*options.vocabulary);
  if (!json) return about(kVocabulary, json.errors());
  try {
    return read_merges(*merges, *json);
  } catch (const std::invalid_argument& error) {
    return about(kVocabulary, {bad_vocabulary(*options.vocabulary, error.what())});
  }
}

Diagnostic bad_text(std::string_view text, const std::string& why, const std::string& help) {
  const std::string shown = runner::printable(text.substr(0, kShownText)) + (text.size() > kShownText ? "…" : "");
  return {ErrorCode::kBadAnnotations, {}, "", "the text '" + shown + "' " + why, help};
}

}  // namespace

Result<Tokenizer> Tokenizer::read(const TokenizerOptions& options) {
  const auto vocabulary = vocabulary_of(options);
  if (!vocabulary) return vocabulary.errors();
  Tokenizer tokenizer{BytePairs(vocabulary->bytes, vocabulary->pairs)};
  tokenizer.start_ = vocabulary->start;
  tokenizer.end_ = vocabulary->end;
  tokenizer.size_ = vocabulary->size;
  tokenizer.cleaning_ = options.cleaning;
  return tokenizer;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text) const {
  if (const auto bad = runner::invalid_utf8(text)) {
    return bad_text(text, "is not UTF-8 at byte " + std::to_string(*bad + 1), "save the file that holds it as UTF-8");
  }
  std::vector<std::int32_t> tokens = {start_};
  try {
    // transformers looks for its marks before it cleans what lies between them.
    std::size_t at = cleaning_ == TextCleaning::kTransformers ? text.find('<') : text.npos;
    while (at != text.npos) {
      const std::string_view rest = text.substr(at);
      const auto mark =
          std::ranges::find_if(kTokenMarks, [&](std::string_view mark) { return rest.starts_with(mark); });
      if (mark == kTokenMarks.end()) {
        at = text.find('<', at + 1);
        continue;
      }
      encode_plain(text.substr(0, at), tokens);
      tokens.push_back(mark == kTokenMarks.begin() ? start_ : end_);
      text = rest.substr(mark->size());
      at = text.find('<');
    }
    encode_plain(text, tokens);
  } catch (const std::invalid_argument& error) {
    return bad_text(text, std::string("may need a repair that cleaning: openai does not do here: ") + error.what(),
                    "write it plainly, or set cleaning: transformers");
  }
  tokens.push_back(end_);
  return tokens;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& tokens) const {
  for_pieces(cleaned(text, cleaning_), cleaning_, [&](std::string_view piece) {
    if (cleaning_ == TextCleaning::kOpenai && piece == kOpenaiMarks[0]) tokens.push_back(start_);
    else if (cleaning_ == TextCleaning::kOpenai && piece == kOpenaiMarks[1]) tokens.push_back(end_);
    else pairs_.encode(piece, tokens);
  });
}

bool cut_tokens(std::vector<std::int32_t>& tokens, std::size_t length) {
  if (tokens.size() <= length) return false;
  tokens[length - 1] = tokens.back();
  tokens.resize(length);
  return true;
}

}  // namespace stages
