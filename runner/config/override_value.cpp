#include "runner/config/override_value.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include "runner/config/override_lexer.h"
#include "runner/config/scalar.h"
#include "runner/suggest.h"

namespace runner {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::array<std::string_view, 8> kSweeps = {"choice",  "range", "interval", "glob",
                                                     "shuffle", "sort",  "tag",      "extend_list"};
constexpr std::array<std::string_view, 5> kCasts = {"int", "float", "str", "bool", "json_str"};

std::string without_backslashes(std::string_view escapes) {
  std::string result;
  for (std::size_t i = 1; i < escapes.size(); i += 2) result += escapes[i];
  return result;
}

/// The text inside the quotes: backslashes before a quote of the same kind are halved, an odd one escapes it.
std::string unquoted(std::string_view quoted) {
  const char quote = quoted.front();
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  std::string result;
  std::size_t backslashes = 0;
  for (const char c : inside) {
    if (c == '\\') {
      ++backslashes;
      continue;
    }
    result.append(c == quote ? backslashes / 2 : backslashes, '\\');
    backslashes = 0;
    result += c;
  }
  return result.append(backslashes / 2, '\\');
}

/// Recursive descent over the tokens of a value.
class Parser {
 public:
  Parser(const SourceText& source, std::size_t start)
      : source_(source), start_(start), tokens_(tokenize_value(source.contents, start)) {}

  Value value() {
    if (kind() == TokenKind::kEnd) return {std::string(), where()};
    Value result = element(0);
    if (kind() == TokenKind::kComma) {
      if (!sweep_) sweep_ = start_;
      while (kind() == TokenKind::kComma) {
        ++next_;
        element(0);
      }
    }
    if (kind() != TokenKind::kEnd) unexpected();
    if (sweep_) {
      const std::string_view typed = source_.contents;
      const std::string key(typed.substr(0, typed.find('=')));
      const std::string values(typed.substr(start_));
      fail_override(source_, *sweep_, "'" + source_.contents + "' lists several values, and this is a single run",
                    "for a list write " + key + "=[" + values + "], for a text " + key + "=\\'" + values + "\\'",
                    ErrorCode::kNeedsMultirun);
    }
    return result;
  }

 private:
  const Token& token(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  TokenKind kind(std::size_t ahead = 0) const { return token(ahead).kind; }
  Location where() const { return override_place(source_, token().start); }

  [[noreturn]] void unexpected() const {
    const std::size_t start = token().start;
    if (kind() == TokenKind::kEnd)
      fail_override(source_, start, "the override ends too early", "close what was opened");
    const std::string_view rest = std::string_view(source_.contents).substr(start);
    const std::string found(1, rest[std::min(rest.find_first_not_of(" \t"), rest.size() - 1)]);
    if (kind() == TokenKind::kQuoted) {
      fail_override(source_, start, "a quoted text may not stand beside other text", "put the whole value in quotes");
    }
    if (kind() == TokenKind::kIllegal && (found == "'" || found == "\"")) {
      fail_override(source_, start, "the quote " + found + " is never closed",
                    "write it as \\" + found + " inside quotes");
    }
    if (kind() == TokenKind::kIllegal && static_cast<unsigned char>(found[0]) < 0x20) {
      fail_override(source_, start, "a control character", "put the value in quotes");
    }
    const std::string_view typed = source_.contents;
    const std::string key(typed.substr(0, typed.find('=') + 1));
    const bool has_quote = typed.substr(start_).find('"') != typed.npos || typed.find('\'') != typed.npos;
    const std::string help =
        has_quote ? "put the value in quotes"
                  : "put the value in quotes: '" + key + "\"" + std::string(typed.substr(start_)) + "\"'";
    fail_override(source_, start, "unexpected '" + found + "'", help);
  }

  void expect(TokenKind expected) {
    if (kind() != expected) unexpected();
    ++next_;
  }

  Value element(int depth) {
    if (depth > kMaxDepth) {
      fail_override(source_, token().start, "values are nested more than 64 deep", "", ErrorCode::kNestingTooDeep);
    }
    if (kind() == TokenKind::kOpenBracket) return list(depth);
    if (kind() == TokenKind::kOpenBrace) return mapping(depth);
    if (kind() == TokenKind::kIdentifier && kind(1) == TokenKind::kOpenParenthesis) return function(depth);
    if (kind() == TokenKind::kQuoted) {
      Value value{unquoted(token().text), where()};
      ++next_;
      if (kind() == TokenKind::kBlank && kind(1) == TokenKind::kEnd) ++next_;
      return value;
    }
    return run(false);
  }

  Value list(int depth) {
    Value result{Value::List{}, where()};
    expect(TokenKind::kOpenBracket);
    if (kind() != TokenKind::kCloseBracket) {
      result.list()->push_back(element(depth + 1));
      while (kind() == TokenKind::kComma) {
        ++next_;
        result.list()->push_back(element(depth + 1));
      }
    }
    expect(TokenKind::kCloseBracket);
    return result;
  }

  Value mapping(int depth) {
    Value result{Value::Map{}, where()};
    expect(TokenKind::kOpenBrace);
    if (kind() != TokenKind::kCloseBrace) {
      entry(result, depth);
      while (kind() == TokenKind::kComma) {
        ++next_;
        entry(result, depth);
      }
    }
    expect(TokenKind::kCloseBrace);
    return result;
  }

  void entry(Value& mapping, int depth) {
    const Value key = run(true);
    expect(TokenKind::kColon);
    Value value = element(depth + 1);
    const std::string name = scalar_text(key);
    if (Value* existing = mapping.find(name)) *existing = std::move(value);
    else mapping.map()->push_back({name, key.where, std::move(value)});
  }

  /// Functions are read, so that what follows them is checked too, but none can be evaluated in a single run.
  Value function(int depth) {
    const Token name = token();
    const Location start = where();
    next_ += 2;
    bool named = false;
    if (kind() != TokenKind::kCloseParenthesis) {
      argument(depth, named);
      while (kind() == TokenKind::kComma) {
        ++next_;
        argument(depth, named);
      }
    }
    expect(TokenKind::kCloseParenthesis);
    if (std::ranges::find(kCasts, name.text) != kCasts.end()) {
      fail_override(source_, name.start, "the function '" + std::string(name.text) + "' is not part of this version",
                    "write the value itself", ErrorCode::kNotBuiltYet);
    }
    if (std::ranges::find(kSweeps, name.text) == kSweeps.end()) {
      std::vector<std::string> known(kSweeps.begin(), kSweeps.end() - 1);
      const std::string near_name = did_you_mean(name.text, known);
      fail_override(source_, name.start, "unknown function '" + std::string(name.text) + "'",
                    near_name.empty() ? "to write a text with parentheses put it in quotes" : near_name);
    }
    if (!sweep_) sweep_ = name.start;
    return {nullptr, start};
  }

  void argument(int depth, bool& named) {
    if (kind() == TokenKind::kIdentifier && kind(1) == TokenKind::kEqual) {
      named = true;
      next_ += 2;
    } else if (named) {
      fail_override(source_, token().start, "a positional argument after a named one",
                    "name it, or move it to the front");
    }
    element(depth + 1);
  }

  static bool belongs_to_run(TokenKind kind, bool is_key) {
    switch (kind) {
      case TokenKind::kIdentifier:
      case TokenKind::kNull:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
      case TokenKind::kBool:
      case TokenKind::kUnquotedCharacter:
      case TokenKind::kEscape:
      case TokenKind::kBlank:
        return true;
      case TokenKind::kInterpolation:
      case TokenKind::kColon:
        return !is_key;
      case TokenKind::kOpenParenthesis:
      case TokenKind::kComma:
      case TokenKind::kCloseParenthesis:
      case TokenKind::kOpenBracket:
      case TokenKind::kCloseBracket:
      case TokenKind::kOpenBrace:
      case TokenKind::kCloseBrace:
      case TokenKind::kEqual:
      case TokenKind::kQuoted:
      case TokenKind::kIllegal:
      case TokenKind::kEnd:
        return false;
    }
    return false;
  }

  /// Text without quotes: one token has a type, several are a string.
  Value run(bool is_key) {
    std::size_t first = next_;
    while (belongs_to_run(kind(), is_key)) ++next_;
    std::size_t last = next_;
    if (first < last && tokens_[first].kind == TokenKind::kBlank) ++first;
    if (first < last && tokens_[last - 1].kind == TokenKind::kBlank) --last;
    if (first == last) unexpected();
    const Location start = override_place(source_, tokens_[first].start);
    if (last - first == 1) return {typed(tokens_[first]), start};
    std::string text;
    for (std::size_t i = first; i < last; ++i) {
      const Token& piece = tokens_[i];
      text += piece.kind == TokenKind::kEscape ? without_backslashes(piece.text) : std::string(piece.text);
    }
    return {std::move(text), start};
  }

  Scalar typed(const Token& token) const {
    std::string digits(token.text);
    std::erase(digits, '_');
    if (token.kind == TokenKind::kFloat) {
      std::ranges::transform(digits, digits.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return parse_double(digits);
    }
    if (token.kind == TokenKind::kInteger) {
      if (digits.front() == '+') digits.erase(0, 1);
      std::int64_t number = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) {
        fail_override(source_, token.start, "the integer '" + digits + "' does not fit 64 bits",
                      "write it in quotes if it is a name", ErrorCode::kNumberOutOfRange);
      }
      return number;
    }
    if (token.kind == TokenKind::kBool) return token.text.size() == 4;
    if (token.kind == TokenKind::kNull) return nullptr;
    if (token.kind == TokenKind::kEscape) return without_backslashes(token.text);
    return std::string(token.text);
  }

  const SourceText& source_;
  const std::size_t start_;
  const std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::optional<std::size_t> sweep_;  ///< where several values are asked for
};

}  // namespace

Location override_place(const SourceText& source, std::size_t offset) {
  const std::string_view before = std::string_view(source.contents).substr(0, offset);
  return {&source, 1 + static_cast<int>(std::ranges::count(before, '\n')),
          static_cast<int>(offset - (before.rfind('\n') + 1)) + 1};
}

void fail_override(const SourceText& source, std::size_t offset, std::string message, std::string help,
                   ErrorCode code) {
  throw OverrideError{{code, override_place(source, offset), "", std::move(message), std::move(help)}};
}

Value read_override_value(const SourceText& source, std::size_t start) { return Parser(source, start).value(); }

}  // namespace runner
