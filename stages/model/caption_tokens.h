#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/text/tokenizer.h"

namespace stages {

/// Reads a tokenizer's files. Throws runner::StageError at /tokenizer/merges or
/// /tokenizer/vocabulary.
std::shared_ptr<const Tokenizer> opened_tokenizer(const TokenizerOptions& options);

/// Returns the tokenizer's merges file, which is next to the weights (saved_weights.h) under a name
/// that libraries use; nullopt if there is none.
std::optional<std::filesystem::path> merges_next_to(const std::string& weights);
/// Like merges_next_to(), but throws runner::StageError (kMissingWeights) at /tokenizer/merges if
/// there is no such file.
std::filesystem::path merges_of(const std::string& weights);

/// The texts that a network accepts.
struct CaptionContext {
  std::int64_t length = 0;     ///< in tokens, including the start and the end
  bool cuts = false;           ///< longer texts are truncated; false: rejected
  std::string cutting_option;  ///< the option that changes this: "model.tokenizer.too_long"
};

/// Tokenizes captions and pads each row with the end token. Throws runner::StageError like
/// ImageTextModel::tokenized().
TokenizedTexts tokenized_captions(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                                  const CaptionContext& taken);

/// Throws the same errors as tokenized_captions() for texts that are empty or not UTF-8.
void check_readable(const std::vector<std::string>& texts);

/// Returns the first few texts in quotes: "'a cat', 'a dog' and 2 more".
std::string quoted_texts(const std::vector<std::string>& texts);

}  // namespace stages
