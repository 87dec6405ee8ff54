#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/model/two_towers.h"
#include "stages/python/python_tokenizer.h"
#include "stages/text/tokenizer.h"

namespace stages {

/// The tokenizer of a Python network's text tower: CLIP's, or one that Python creates.
class TowerTokenizer {
 public:
  /// Reads the tokenizer's files, or has Python create it and tokenize sample texts. Throws
  /// runner::StageError at the options in the `tokenizer` section.
  explicit TowerTokenizer(const TowerOptions& options);

  /// Implements ImageTextModel::tokenized() for a network with embeddings for `known` tokens;
  /// nullopt if that number is unknown.
  TokenizedTexts tokenized(const std::vector<std::string>& texts,
                           std::optional<std::int64_t> known) const;
  /// Throws runner::StageError if CLIP's tokenizer does not suit a network with embeddings for
  /// `known` tokens. If Python creates the tokenizer, tokenized() checks the tokens instead.
  void check(std::int64_t known) const;

  /// A number of tokens that a text may have: the context of CLIP's tokenizer, or the length of the
  /// sample texts.
  std::int64_t length() const { return length_; }
  /// Returns what the user should know about the tokenizer; empty if there is nothing.
  std::string note() const;

 private:
  TokenizedTexts tokenized_in_python(const std::vector<std::string>& texts,
                                     std::optional<std::int64_t> known) const;

  const TowerOptions options_;
  std::shared_ptr<const Tokenizer> clip_;       // null if Python creates the tokenizer
  std::unique_ptr<PythonTokenizer> in_python_;  // null otherwise
  std::int64_t length_ = 0;
};

}  // namespace stages
