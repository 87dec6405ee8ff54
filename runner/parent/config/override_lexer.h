#pragma once

#include <cstddef>
#include <string_view>

namespace runner {

/// The syntax accepted in an override: exactly Hydra's, or also our extensions (letters outside
/// ASCII, # ! & ; < > ^, ~/, nested interpolations).
enum class OverrideGrammar { kHydra, kExtended };

enum class TokenKind {
  kOpenParenthesis,
  kComma,
  kCloseParenthesis,
  kOpenBracket,
  kCloseBracket,
  kOpenBrace,
  kCloseBrace,
  kColon,
  kEqual,
  kFloat,
  kInteger,
  kBool,
  kNull,
  kUnquotedCharacter,
  kIdentifier,
  kEscape,
  kBlank,
  kQuoted,
  kInterpolation,
  kIllegal,  ///< a character that needs quotes, or an unclosed quote
  kEnd,
};

/// A token of an override's value. Punctuation includes the spaces around it.
struct Token {
  TokenKind kind;
  std::size_t start;  ///< byte offset in the whole override
  std::string_view text;
  std::size_t end() const { return start + text.size(); }
};

/// Splits an override's value into tokens, one at a time: the longest match wins, ties go to the
/// first rule. `text` is borrowed.
class OverrideLexer {
 public:
  OverrideLexer(std::string_view text, std::size_t start, OverrideGrammar grammar);

  const Token& token() const { return token_; }
  /// Returns the token after this one.
  Token following() const { return read(token_.end()); }
  void advance() { token_ = read(token_.end()); }
  /// Continues at `offset`.
  void move_to(std::size_t offset) { token_ = read(offset); }

 private:
  Token read(std::size_t offset) const;
  std::size_t interpolation_length(std::string_view rest) const;

  std::string_view text_;
  OverrideGrammar grammar_;
  std::size_t last_brace_;  ///< the offset of the last '}'; no interpolation starts after it
  Token token_;
};

/// True if `text` is an identifier, [A-Za-z_][A-Za-z0-9_-]*.
bool is_identifier(std::string_view text);

/// Returns the length of the unsigned integer at the start of `text`; 0 if there is none. An
/// integer is 0, or digits without a leading zero and with single '_' between them.
std::size_t integer_length(std::string_view text);

}  // namespace runner
