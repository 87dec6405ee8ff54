#include "stages/model/caption_tokens.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/utf8.h"
#include "runner/shared/weights/weights_file.h"

namespace stages {

namespace fs = std::filesystem;

namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kShownTexts = 10;

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n\f\v") == text.npos;
}

const char* are(const std::vector<std::string>& texts) {
  return texts.size() == 1 ? " is " : " are ";
}

[[noreturn]] void refuse_captions(const std::vector<std::string>& which, const std::string& what,
                                  const std::string& help) {
  const bool is_one = which.size() == 1;
  throw StageError(ErrorCode::kBadAnnotations,
                   (is_one ? "a caption" : std::to_string(which.size()) + " captions") + what +
                       ": " + quoted_texts(which))
      .with_help(help);
}

void refuse_blank(const std::vector<std::string>& blank) {
  if (blank.empty()) return;
  refuse_captions(blank, are(blank) + std::string("empty"),
                  "give each image a caption, or leave the image out");
}

}  // namespace

std::string quoted_texts(const std::vector<std::string>& texts) {
  constexpr std::size_t kShownBytes = 80;
  std::vector<std::string> shown;
  for (const std::string& text : texts)
    shown.push_back("'" + (text.size() > kShownBytes ? text.substr(0, kShownBytes) + "…" : text) +
                    "'");
  return runner::listed(shown, kShownTexts);
}

std::shared_ptr<const Tokenizer> opened_tokenizer(const TokenizerOptions& options) {
  auto tokenizer = Tokenizer::read(options);
  if (tokenizer) return std::make_shared<const Tokenizer>(*std::move(tokenizer));
  const runner::Diagnostic& error = tokenizer.errors().front();
  throw StageError(error.code, error.message)
      .at("/tokenizer" + error.pointer)
      .with_help(error.help);
}

std::optional<fs::path> merges_next_to(const std::string& weights) {
  constexpr std::array kNames = {"merges.txt", "bpe_simple_vocab_16e6.txt.gz"};
  const fs::path folder = runner::find_weights(weights).parent_path();
  for (const char* name : kNames) {
    std::error_code error;
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  }
  return std::nullopt;
}

fs::path merges_of(const std::string& weights) {
  if (auto merges = merges_next_to(weights)) return *std::move(merges);
  throw StageError(ErrorCode::kMissingWeights,
                   "there is no merges.txt next to the weights '" + weights + "'")
      .at("/tokenizer/merges")
      .with_help("download the tokenizer of the same model, or specify its merges.txt");
}

TokenizedTexts tokenized_captions(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                                  const CaptionContext& taken) {
  const auto context = static_cast<std::size_t>(taken.length);
  std::vector<std::int64_t> ids(texts.size() * context, tokenizer.end());
  TokenizedTexts result;
  std::vector<std::string> blank, long_ones, damaged;
  std::string why_damaged;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (is_blank(texts[i])) blank.push_back(texts[i]);
    auto tokens = tokenizer.encode(texts[i]);
    if (!tokens) {
      damaged.push_back(texts[i]);
      why_damaged = tokens.errors().front().message;
      continue;
    }
    if (cut_tokens(*tokens, context)) {
      long_ones.push_back(texts[i]);
      result.cut.push_back(i);
    }
    std::ranges::copy(*tokens, ids.begin() + static_cast<std::ptrdiff_t>(i * context));
    result.lengths.push_back(static_cast<std::int64_t>(tokens->size()));
  }
  refuse_blank(blank);
  if (!damaged.empty())
    refuse_captions(damaged, " cannot be read (" + why_damaged + ")", "write captions in UTF-8");
  if (!long_ones.empty() && !taken.cuts) {
    refuse_captions(long_ones,
                    are(long_ones) + std::string("longer than the ") + std::to_string(context) +
                        " tokens of the text tower's context",
                    "shorten them, or set " + taken.cutting_option + ": cut");
  }
  result.ids = torch::tensor(ids).view({static_cast<std::int64_t>(texts.size()), taken.length});
  return result;
}

void check_readable(const std::vector<std::string>& texts) {
  std::vector<std::string> blank, damaged;
  for (const std::string& text : texts) {
    if (is_blank(text)) blank.push_back(text);
    else if (runner::invalid_utf8(text)) damaged.push_back(text);
  }
  refuse_blank(blank);
  if (!damaged.empty())
    refuse_captions(damaged, are(damaged) + std::string("not UTF-8"), "write captions in UTF-8");
}

}  // namespace stages
