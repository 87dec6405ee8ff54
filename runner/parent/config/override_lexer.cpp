#include "runner/parent/config/override_lexer.h"
#include "runner/shared/text/utf8.h"

#include <algorithm>
#include <cctype>

namespace runner {
namespace {

char at(std::string_view text, std::size_t i) { return i < text.size() ? text[i] : '\0'; }
bool is_sign(char c) { return c == '+' || c == '-'; }

std::size_t blank_length(std::string_view text) {
  return std::ranges::find_if_not(text, is_blank) - text.begin();
}

/// Returns the length of [0-9](_?[0-9])* at the start of `text`.
std::size_t digits_length(std::string_view text) {
  std::size_t size = 0;
  while (is_digit(at(text, size))) {
    ++size;
    if (at(text, size) == '_' && is_digit(at(text, size + 1))) ++size;
  }
  return size;
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::ranges::equal(text.substr(0, word.size()), word, {},
                            [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
}

std::size_t signed_integer_length(std::string_view text) {
  const std::size_t sign = is_sign(at(text, 0));
  const std::size_t size = integer_length(text.substr(sign));
  return size ? sign + size : 0;
}

std::size_t float_length(std::string_view text) {
  const std::size_t sign = is_sign(at(text, 0));
  text.remove_prefix(sign);
  if (starts_with_word(text, "inf") || starts_with_word(text, "nan")) return sign + 3;
  std::size_t size = integer_length(text);
  bool is_float = false;
  if (at(text, size) == '.') {
    const std::size_t fraction = digits_length(text.substr(size + 1));
    if (size == 0 && fraction == 0) return 0;
    size += 1 + fraction;
    is_float = true;
  }
  if (size > 0 && (at(text, size) == 'e' || at(text, size) == 'E')) {
    const std::size_t digits_start = size + 1 + is_sign(at(text, size + 1));
    const std::size_t exponent = digits_length(text.substr(digits_start));
    if (exponent) return sign + digits_start + exponent;
  }
  return is_float ? sign + size : 0;
}

std::size_t identifier_length(std::string_view text) {
  if (!is_letter(at(text, 0)) && at(text, 0) != '_') return 0;
  const auto continues = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; };
  return std::ranges::find_if_not(text, continues) - text.begin();
}

std::size_t escape_length(std::string_view text) {
  constexpr std::string_view kEscaped = "\\()[]{}:=, \t";
  std::size_t size = 0;
  while (at(text, size) == '\\' && size + 1 < text.size() &&
         kEscaped.find(text[size + 1]) != kEscaped.npos)
    size += 2;
  return size;
}

/// Returns the length of the quoted text at the start of `text`; 0 if there is none. It ends at the
/// first identical quote after an even number of backslashes.
std::size_t quoted_length(std::string_view text) {
  const char quote = at(text, 0);
  if (quote != '\'' && quote != '"') return 0;
  std::size_t backslashes = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote && backslashes % 2 == 0) return i + 1;
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
  }
  return 0;
}

/// Returns the length of the punctuation at the start of `text`, including the spaces around it; 0
/// if there is none.
std::size_t punctuation_length(std::string_view text, TokenKind& kind) {
  constexpr std::string_view kMarks = "(,)[]{}:=";
  const std::size_t before = blank_length(text);
  const std::size_t found = before < text.size() ? kMarks.find(text[before]) : kMarks.npos;
  if (found == kMarks.npos) return 0;
  kind = static_cast<TokenKind>(found);
  const bool opens = kMarks[found] == '[' || kMarks[found] == '{';
  const bool closes = kMarks[found] == ')' || kMarks[found] == ']' || kMarks[found] == '}';
  if (opens && before > 0) return 0;
  return before + 1 + (closes ? 0 : blank_length(text.substr(before + 1)));
}

std::size_t unquoted_length(std::string_view text, OverrideGrammar grammar) {
  constexpr std::string_view kHydra = "/-\\+.$%*@?|", kExtended = "#!&;<>^";
  if (text.empty()) return 0;
  if (kHydra.find(text[0]) != kHydra.npos) return 1;
  if (grammar == OverrideGrammar::kHydra) return 0;
  if (text.starts_with("~/")) return 1;  // the home folder
  if (static_cast<unsigned char>(text[0]) < 0x80) return kExtended.find(text[0]) != kExtended.npos;
  std::size_t size = 1;  // a whole character
  while ((static_cast<unsigned char>(at(text, size)) & 0xC0) == 0x80) ++size;
  return size;
}

}  // namespace

OverrideLexer::OverrideLexer(std::string_view text, std::size_t start, OverrideGrammar grammar)
    : text_(text), grammar_(grammar), last_brace_(text.rfind('}')), token_(read(start)) {}

/// In Hydra's grammar, an interpolation ends at the first `}`; in the extended grammar, it ends at
/// the matching one.
std::size_t OverrideLexer::interpolation_length(std::string_view rest) const {
  if (!rest.starts_with("${") || at(rest, 2) == '}') return 0;
  if (last_brace_ == text_.npos || text_.size() - rest.size() > last_brace_) return 0;
  const std::size_t first_end = rest.find('}');
  if (grammar_ == OverrideGrammar::kHydra) return first_end + 1;
  int depth = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest.substr(i).starts_with("${")) ++depth;
    if (rest[i] == '}' && --depth == 0) return i + 1;
  }
  return first_end + 1;
}

Token OverrideLexer::read(std::size_t offset) const {
  if (offset >= text_.size()) return {TokenKind::kEnd, text_.size(), {}};
  const std::string_view rest = text_.substr(offset);
  std::size_t longest = 0;
  TokenKind kind = TokenKind::kIllegal;
  const auto offer = [&](TokenKind candidate, std::size_t length) {
    if (length <= longest) return;
    longest = length;
    kind = candidate;
  };
  TokenKind mark{};
  const std::size_t mark_length = punctuation_length(rest, mark);
  offer(mark, mark_length);
  offer(TokenKind::kFloat, float_length(rest));
  offer(TokenKind::kInteger, signed_integer_length(rest));
  offer(TokenKind::kBool, starts_with_word(rest, "true")    ? 4
                          : starts_with_word(rest, "false") ? 5
                                                            : 0);
  offer(TokenKind::kNull, starts_with_word(rest, "null") ? 4 : 0);
  offer(TokenKind::kUnquotedCharacter, unquoted_length(rest, grammar_));
  offer(TokenKind::kIdentifier, identifier_length(rest));
  offer(TokenKind::kEscape, escape_length(rest));
  offer(TokenKind::kBlank, blank_length(rest));
  offer(TokenKind::kQuoted, quoted_length(rest));
  offer(TokenKind::kInterpolation, interpolation_length(rest));
  return {kind, offset, rest.substr(0, longest)};
}

bool is_identifier(std::string_view text) {
  return !text.empty() && identifier_length(text) == text.size();
}

std::size_t integer_length(std::string_view text) {
  if (!is_digit(at(text, 0))) return 0;
  return text[0] == '0' ? 1 : digits_length(text);
}

}  // namespace runner
