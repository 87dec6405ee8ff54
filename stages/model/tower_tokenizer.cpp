#include "stages/model/tower_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "stages/model/caption_tokens.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

/// Two texts of different lengths, so that a tokenizer that does not pad them is detected.
constexpr std::array kSampleTexts = {"a photo of a cat", "a photo of a cat on a red bicycle"};

/// Runs `act`, and assigns its errors to the recipe's tokenizer unless they have a location.
template <typename Act>
auto at_tokenizer(const TowerOptions& options, const std::string& option, const Act& act) {
  try {
    return act();
  } catch (StageError& error) {
    if (!error.stage.empty()) throw;
    if (error.option.empty()) error.option = option;
    throw std::move(error).in_stage(options.pointer);
  }
}

}  // namespace

TowerTokenizer::TowerTokenizer(const TowerOptions& options) : options_(options) {
  at_tokenizer(options_, "/tokenizer/entry", [&] {
    if (!options_.python_tokenizer) {
      clip_ = opened_tokenizer(options_.tokenizer);
      length_ = options_.context.length;
      return;
    }
    in_python_ = std::make_unique<PythonTokenizer>(options_.python_tokenizer->entry,
                                                   options_.python_tokenizer->arguments);
    length_ = in_python_->tokens({kSampleTexts.begin(), kSampleTexts.end()}).size(1);
  });
}

TokenizedTexts TowerTokenizer::tokenized(const std::vector<std::string>& texts,
                                         std::optional<std::int64_t> known) const {
  if (in_python_) return tokenized_in_python(texts, known);
  TokenizedTexts result = tokenized_captions(texts, *clip_, options_.context);
  if (options_.fills_context) std::ranges::fill(result.lengths, options_.context.length);
  return result;
}

TokenizedTexts TowerTokenizer::tokenized_in_python(const std::vector<std::string>& texts,
                                                   std::optional<std::int64_t> known) const {
  check_readable(texts);
  if (texts.empty()) return {.ids = torch::empty({0, length_}, at::kLong)};
  return at_tokenizer(options_, "/tokenizer/entry", [&] {
    const at::Tensor ids = in_python_->tokens(texts);
    const at::Tensor highest = std::get<0>(ids.max(1));
    const auto most = highest.max().item<std::int64_t>();
    if (known && most >= *known) {
      const auto& text = texts[static_cast<std::size_t>(highest.argmax().item<std::int64_t>())];
      throw StageError(ErrorCode::kOptionConflict,
                       "the tokenizer returned the token " + std::to_string(most) + " for " +
                           quoted_texts({text}) + ", but the network has embeddings for " +
                           std::to_string(*known) + " tokens")
          .with_help("use the tokenizer that the network was built for");
    }
    return TokenizedTexts{.ids = ids,
                          .lengths = std::vector<std::int64_t>(texts.size(), ids.size(1))};
  });
}

void TowerTokenizer::check(std::int64_t known) const {
  if (clip_) check_vocabulary(known, clip_->size(), options_);
}

std::string TowerTokenizer::note() const {
  if (!clip_ || options_.tokenizer.merges) return "";
  return "the tokenizer has no merges: every byte of a caption is one token, out of " +
         std::to_string(clip_->size());
}

}  // namespace stages
