#include "runner/override.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "runner/override_lexer.h"
#include "runner/scalar.h"
#include "runner/suggest.h"
#include "runner/utf8.h"

namespace runner {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::array<std::string_view, 8> kSweeps = {"choice",  "range", "interval", "glob",
                                                     "shuffle", "sort",  "tag",      "extend_list"};
constexpr std::array<std::string_view, 5> kCasts = {"int", "float", "str", "bool", "json_str"};

/// Ends the reading of one override; carries what is wrong with it.
struct SyntaxError {
  Diagnostic diagnostic;
};

Location place(const SourceText& source, std::size_t offset) {
  const std::string_view before = std::string_view(source.contents).substr(0, offset);
  return {&source, 1 + static_cast<int>(std::ranges::count(before, '\n')),
          static_cast<int>(offset - (before.rfind('\n') + 1)) + 1};
}

[[noreturn]] void fail(const SourceText& source, std::size_t offset, std::string message, std::string help = "",
                       ErrorCode code = ErrorCode::kOverrideSyntax) {
  throw SyntaxError{{code, place(source, offset), "", std::move(message), std::move(help)}};
}

/// [A-Za-z_$][A-Za-z0-9_$-]*
bool is_key_word(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
  };
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

/// Words or integers joined by `separator`; one alone must be a word.
template <typename Predicate>
bool is_joined(std::string_view text, char separator, Predicate predicate) {
  while (true) {
    const std::size_t end = text.find(separator);
    if (!predicate(text.substr(0, end))) return false;
    if (end == text.npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool is_dotted(std::string_view text) {
  const auto is_part = [](std::string_view part) {
    return is_key_word(part) || (!part.empty() && integer_length(part) == part.size());
  };
  return is_key_word(text) || (text.find('.') != text.npos && is_joined(text, '.', is_part));
}

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
      fail(source_, *sweep_, "'" + source_.contents + "' lists several values, and this is a single run",
           "for a list write " + key + "=[" + values + "], for a text " + key + "=\\'" + values + "\\'",
           ErrorCode::kNeedsMultirun);
    }
    return result;
  }

 private:
  const Token& token(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  TokenKind kind(std::size_t ahead = 0) const { return token(ahead).kind; }
  Location where() const { return place(source_, token().start); }

  [[noreturn]] void unexpected() const {
    const std::size_t start = token().start;
    if (kind() == TokenKind::kEnd) fail(source_, start, "the override ends too early", "close what was opened");
    const std::string_view rest = std::string_view(source_.contents).substr(start);
    const std::string found(1, rest[std::min(rest.find_first_not_of(" \t"), rest.size() - 1)]);
    if (kind() == TokenKind::kQuoted) {
      fail(source_, start, "a quoted text may not stand beside other text", "put the whole value in quotes");
    }
    if (kind() == TokenKind::kIllegal && (found == "'" || found == "\"")) {
      fail(source_, start, "the quote " + found + " is never closed", "write it as \\" + found + " inside quotes");
    }
    if (kind() == TokenKind::kIllegal && static_cast<unsigned char>(found[0]) < 0x20) {
      fail(source_, start, "a control character", "put the value in quotes");
    }
    const std::string_view typed = source_.contents;
    const std::string key(typed.substr(0, typed.find('=') + 1));
    const bool has_quote = typed.substr(start_).find('"') != typed.npos || typed.find('\'') != typed.npos;
    const std::string help =
        has_quote ? "put the value in quotes"
                  : "put the value in quotes: '" + key + "\"" + std::string(typed.substr(start_)) + "\"'";
    fail(source_, start, "unexpected '" + found + "'", help);
  }

  void expect(TokenKind expected) {
    if (kind() != expected) unexpected();
    ++next_;
  }

  Value element(int depth) {
    if (depth > kMaxDepth) {
      fail(source_, token().start, "values are nested more than 64 deep", "", ErrorCode::kNestingTooDeep);
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
      fail(source_, name.start, "the function '" + std::string(name.text) + "' is not part of this version",
           "write the value itself", ErrorCode::kNotBuiltYet);
    }
    if (std::ranges::find(kSweeps, name.text) == kSweeps.end()) {
      std::vector<std::string> known(kSweeps.begin(), kSweeps.end() - 1);
      const std::string near_name = did_you_mean(name.text, known);
      fail(source_, name.start, "unknown function '" + std::string(name.text) + "'",
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
      fail(source_, token().start, "a positional argument after a named one", "name it, or move it to the front");
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
    const Location start = place(source_, tokens_[first].start);
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
        fail(source_, token.start, "the integer '" + digits + "' does not fit 64 bits",
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

/// Reads prefix, key and package; `end` is where they end.
void read_key(const SourceText& source, std::size_t end, Override& result) {
  const std::string_view text = std::string_view(source.contents).substr(0, end);
  std::size_t start = 0;
  if (text.starts_with('~')) {
    result.kind = OverrideKind::kDelete;
    start = 1;
  } else if (text.starts_with('+')) {
    start = text.starts_with("++") ? 2 : 1;
    result.kind = start == 2 ? OverrideKind::kForceAdd : OverrideKind::kAdd;
  }
  const std::size_t package = text.find('@', start);
  const std::string_view key = text.substr(start, package - start);
  result.key = key;
  result.key_where = place(source, start);
  if (package != text.npos) {
    result.package = text.substr(package + 1);
    result.package_where = place(source, package + 1);
    if (!result.package->empty() && !is_dotted(*result.package)) {
      fail(source, package + 1, "'" + *result.package + "' is no package", "a package is written a.b.c");
    }
  }
  if (key.empty()) fail(source, start, "the override has no key", "write key=value");
  const bool is_group = key.find('/') != key.npos && is_joined(key, '/', is_identifier);
  if (is_group || is_dotted(key)) return;
  const std::size_t blank = key.find_first_of(" \t");
  if (blank != key.npos)
    fail(source, start + blank, "a key may not hold blanks", "write key=value without blanks before '='");
  const bool has_index = key.find('[') != key.npos;
  fail(source, start, "'" + std::string(key) + "' is no key",
       has_index ? "write an index with a dot: layers.0" : "a key is written a.b.c, a config group a/b");
}

}  // namespace

std::string_view prefix(OverrideKind kind) {
  switch (kind) {
    case OverrideKind::kChange:
      return "";
    case OverrideKind::kAdd:
      return "+";
    case OverrideKind::kForceAdd:
      return "++";
    case OverrideKind::kDelete:
      return "~";
  }
  return "";
}

Result<Override> parse_override(const SourceText& source) {
  try {
    const std::string_view text = source.contents;
    if (const auto offset = invalid_utf8(text))
      fail(source, *offset, "the text is not UTF-8", "", ErrorCode::kInvalidUtf8);
    if (const std::size_t zero = text.find('\0'); zero != text.npos) fail(source, zero, "a control character");
    Override result;
    result.where = {&source, 1, 1};
    const std::size_t equal = text.find('=');
    read_key(source, std::min(equal, text.size()), result);
    if (equal == text.npos) {
      if (result.kind == OverrideKind::kDelete) return result;
      fail(source, text.size(), "'" + source.contents + "' sets no value", "write " + source.contents + "=VALUE");
    }
    const std::size_t start = std::min(text.find_first_not_of(" \t", equal + 1), text.size());
    result.value_text = text.substr(start);
    result.value = Parser(source, start).value();
    return result;
  } catch (const SyntaxError& error) {
    return error.diagnostic;
  }
}

}  // namespace runner
