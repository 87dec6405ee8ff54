#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace runner {

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
  kIllegal,  ///< a character that needs quotes, or a quote that is never closed
  kEnd,
};

/// A piece of an override's value. Punctuation includes the blanks around it.
struct Token {
  TokenKind kind;
  std::size_t start;  ///< byte offset in the whole override
  std::string_view text;
};

/// Splits the part of `text` after offset `start` into tokens: the longest match wins, ties go to the first rule.
/// The last token is kEnd, or kIllegal where reading had to stop.
std::vector<Token> tokenize_value(std::string_view text, std::size_t start);

/// Is `text` an identifier, [A-Za-z_][A-Za-z0-9_-]* ?
bool is_identifier(std::string_view text);

/// The length of an integer without a sign at the start of `text`: 0, or digits with single '_' between them and
/// no leading zero. 0 when there is none.
std::size_t integer_length(std::string_view text);

}  // namespace runner
