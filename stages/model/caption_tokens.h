#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/text/tokenizer.h"

namespace stages {

/// Reads a tokenizer's files. Throws runner::StageError at /tokenizer/merges or
/// /tokenizer/vocabulary.
std::shared_ptr<const Tokenizer> opened_tokenizer(const TokenizerOptions& options);

/// The texts that a network accepts.
struct CaptionContext {
  std::int64_t length = 0;     ///< in tokens, including the start and the end
  bool cuts = false;           ///< longer texts are truncated; false: refused
  std::string cutting_option;  ///< the option that changes this: "model.tokenizer.too_long"
};

/// Tokenizes captions and pads each row with the end token. Throws runner::StageError like
/// ImageTextModel::tokenized().
TokenizedTexts tokenized_captions(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                                  const CaptionContext& taken);

}  // namespace stages
