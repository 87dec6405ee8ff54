#include "runner/parent/config/override_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "runner/parent/config/override.h"
#include "runner/parent/config/override_function.h"
#include "runner/parent/config/override_lexer.h"
#include "runner/parent/config/scalar.h"
#include "runner/parent/config/trial_list.h"

namespace runner {
namespace {

constexpr int kDeepestValue = 64;

std::string without_backslashes(std::string_view escapes) {
  std::string result;
  for (std::size_t i = 1; i < escapes.size(); i += 2) result += escapes[i];
  return result;
}

/// Returns the text inside the quotes. Backslashes before a quote of the same kind are halved, and
/// an odd one escapes the quote.
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

/// Returns the value of a single token.
Value typed(const Token& token, Location where) {
  std::string digits(token.text);
  switch (token.kind) {
    case TokenKind::kFloat:
      std::erase(digits, '_');
      std::ranges::transform(digits, digits.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return {parse_double(digits), where};
    case TokenKind::kInteger: {
      std::erase(digits, '_');
      if (digits.front() == '+') digits.erase(0, 1);
      std::int64_t number = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc()) {
        return {number, where};
      }
      Value value{std::move(digits), where};
      value.form = ScalarForm::kBigInteger;
      return value;
    }
    case TokenKind::kBool:
      return {token.text.size() == 4, where};
    case TokenKind::kNull:
      return {nullptr, where};
    case TokenKind::kEscape:
      return {without_backslashes(token.text), where};
    default:
      return {std::string(token.text), where};
  }
}

KeyType typed_key(const Value& key) {
  if (key.is_null()) return KeyType::kNull;
  if (std::holds_alternative<bool>(key.data)) return KeyType::kBool;
  if (std::holds_alternative<double>(key.data)) return KeyType::kFloat;
  if (std::holds_alternative<std::int64_t>(key.data) || key.form == ScalarForm::kBigInteger)
    return KeyType::kInteger;
  return KeyType::kString;
}

/// Finds entries of a mapping by key. As in Python, 1, 1.0 and true are the same key, as are keys
/// with the same text.
class KeyIndex {
 public:
  /// Returns the index of the entry with an equal key. If there is none, returns `next` and records
  /// it as the index of `key`.
  std::size_t place(const Value& key, std::size_t next) {
    const auto by_text = index_.try_emplace("t" + scalar_text(key), next);
    const auto by_number = index_.try_emplace(number(key), by_text.first->second);
    if (!by_number.second) by_text.first->second = by_number.first->second;
    return by_number.first->second;
  }

 private:
  static std::string number(const Value& key) {
    if (const auto* flag = std::get_if<bool>(&key.data)) return *flag ? "n1" : "n0";
    const auto* real = std::get_if<double>(&key.data);
    if (!real)
      return (key.form == ScalarForm::kBigInteger || typed_key(key) == KeyType::kInteger ? "n"
                                                                                         : "t") +
             scalar_text(key);
    const std::string text = float_text(*real == 0 ? 0.0 : *real);
    return "n" + (text.ends_with(".0") ? text.substr(0, text.size() - 2) : text);
  }

  std::unordered_map<std::string, std::size_t> index_;
};

/// Recursive descent over the tokens of a value.
class Parser {
 public:
  Parser(const SourceText& source, std::size_t start, OverrideGrammar grammar)
      : source_(source),
        start_(start),
        is_extended_(grammar == OverrideGrammar::kExtended),
        places_(source),
        lexer_(source.contents, start, grammar) {}

  Element value() {
    if (kind() == TokenKind::kEnd) return {Value{std::string(), where()}, where()};
    Element result = element(0, true);
    if (kind() == TokenKind::kComma) {
      Sweep sweep{.where = result.where};
      sweep.choices.push_back(plain_value(std::move(result)));
      while (kind() == TokenKind::kComma) {
        lexer_.advance();
        sweep.choices.push_back(plain_value(element(0, true)));
      }
      result = {std::move(sweep), places_.at(start_)};
    }
    if (kind() != TokenKind::kEnd) unexpected();
    return result;
  }

 private:
  const Token& token() const { return lexer_.token(); }
  TokenKind kind() const { return token().kind; }
  Location where() { return places_.at(token().start); }

  [[noreturn]] void unexpected() {
    const Location place = where();
    if (kind() == TokenKind::kEnd)
      fail_override(place, "the value ends unexpectedly",
                    "close what was opened, or remove the comma at the end");
    const std::string_view rest = std::string_view(source_.contents).substr(token().start);
    const std::string found(1, rest[std::min(rest.find_first_not_of(" \t"), rest.size() - 1)]);
    if (kind() == TokenKind::kQuoted) {
      fail_override(place, "quoted text cannot be next to other text",
                    "put the whole value in quotes");
    }
    if (kind() == TokenKind::kIllegal && (found == "'" || found == "\"")) {
      fail_override(place, "the quote " + found + " is never closed",
                    "close it; the character itself is written \\" + found + " inside quotes");
    }
    if (kind() == TokenKind::kIllegal && static_cast<unsigned char>(found[0]) < 0x20) {
      fail_override(place, "the value contains a control character", "put the value in quotes");
    }
    const std::string_view typed = source_.contents;
    const std::string key(typed.substr(0, std::min(typed.find('=') + 1, start_)));
    const bool has_quote = typed.find_first_of("'\"", start_) != typed.npos;
    const std::string help = has_quote ? "put the value in quotes"
                                       : "put the value in quotes: '" + key + "\"" +
                                             std::string(typed.substr(start_)) + "\"'";
    fail_override(place, "unexpected '" + found + "'", help);
  }

  void expect(TokenKind expected) {
    if (kind() != expected) unexpected();
    lexer_.advance();
  }

  /// Parses one element. `takes_equal` allows '=' in unquoted text; it is false inside a function,
  /// where name=value has its own meaning.
  Element element(int depth, bool takes_equal) {
    if (depth > kDeepestValue) {
      fail_override(where(), "values are nested more than 64 levels deep", "",
                    ErrorCode::kNestingTooDeep);
    }
    const Location start = where();
    if (kind() == TokenKind::kOpenBracket) return {list(depth, takes_equal), start};
    if (kind() == TokenKind::kOpenBrace) return {mapping(depth, takes_equal), start};
    if (kind() == TokenKind::kQuoted) return {quoted(), start};
    if (kind() == TokenKind::kIdentifier &&
        lexer_.following().kind == TokenKind::kOpenParenthesis) {
      return function(depth);
    }
    return {text(false, takes_equal), start};
  }

  Value quoted() {
    Value value{unquoted(token().text), where()};
    value.form =
        token().text.front() == '"' ? ScalarForm::kDoubleQuoted : ScalarForm::kSingleQuoted;
    lexer_.advance();
    if (is_extended_ && kind() == TokenKind::kBlank && lexer_.following().kind == TokenKind::kEnd)
      lexer_.advance();
    return value;
  }

  Value list(int depth, bool takes_equal) {
    Value result{Value::List{}, where()};
    expect(TokenKind::kOpenBracket);
    while (kind() != TokenKind::kCloseBracket) {
      result.list()->push_back(plain_value(element(depth + 1, takes_equal)));
      if (kind() != TokenKind::kComma) break;
      lexer_.advance();
      if (kind() == TokenKind::kCloseBracket && !is_extended_) unexpected();
    }
    expect(TokenKind::kCloseBracket);
    return result;
  }

  Value mapping(int depth, bool takes_equal) {
    Value result{Value::Map{}, where()};
    KeyIndex index;
    expect(TokenKind::kOpenBrace);
    if (kind() != TokenKind::kCloseBrace) {
      entry(*result.map(), index, depth, takes_equal);
      while (kind() == TokenKind::kComma) {
        lexer_.advance();
        entry(*result.map(), index, depth, takes_equal);
      }
    }
    expect(TokenKind::kCloseBrace);
    return result;
  }

  /// Parses one entry. If keys are equal, the last value wins, at the position of the first.
  void entry(Value::Map& mapping, KeyIndex& index, int depth, bool takes_equal) {
    const Value key = is_extended_ && kind() == TokenKind::kQuoted ? quoted() : text(true, false);
    expect(TokenKind::kColon);
    Value value = plain_value(element(depth + 1, takes_equal));
    const std::size_t place = index.place(key, mapping.size());
    if (place < mapping.size()) mapping[place].value = std::move(value);
    else mapping.push_back({scalar_text(key), key.where, std::move(value), typed_key(key)});
  }

  Element function(int depth) {
    FunctionCall call{.name = std::string(token().text), .where = where()};
    lexer_.advance();
    expect(TokenKind::kOpenParenthesis);
    const bool is_zip = is_extended_ && call.name == "zip";
    if (kind() != TokenKind::kCloseParenthesis) {
      argument(call, depth, is_zip);
      while (kind() == TokenKind::kComma) {
        lexer_.advance();
        argument(call, depth, is_zip);
      }
    }
    expect(TokenKind::kCloseParenthesis);
    return is_zip ? zip(std::move(call)) : call_function(std::move(call));
  }

  void argument(FunctionCall& call, int depth, bool is_zip) {
    std::string name = argument_name(is_zip);
    const Location start = where();
    Element value = element(depth + 1, false);
    if (!name.empty()) {
      call.named.emplace_back(std::move(name), std::move(value));
      return;
    }
    if (!call.named.empty()) {
      fail_override(start, "a positional argument follows a named one",
                    "name it, or move it to the front", ErrorCode::kBadFunctionCall);
    }
    call.arguments.push_back(std::move(value));
  }

  /// Returns the name in `name=value`; empty if there is none. The columns of zip() are named by
  /// complete keys.
  std::string argument_name(bool is_zip) {
    const std::string_view rest = std::string_view(source_.contents).substr(token().start);
    std::size_t size = kind() == TokenKind::kIdentifier ? token().text.size() : 0;
    if (is_zip) size = override_key_length(rest);
    if (size == 0) return "";
    const Token first = token();
    lexer_.move_to(first.start + size);
    if (kind() == TokenKind::kEqual) {
      lexer_.advance();
      return std::string(rest.substr(0, size));
    }
    lexer_.move_to(first.start);
    return "";
  }

  static bool belongs_to_text(TokenKind kind, bool is_key, bool takes_equal) {
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
      case TokenKind::kEqual:
        return takes_equal;
      case TokenKind::kOpenParenthesis:
      case TokenKind::kComma:
      case TokenKind::kCloseParenthesis:
      case TokenKind::kOpenBracket:
      case TokenKind::kCloseBracket:
      case TokenKind::kOpenBrace:
      case TokenKind::kCloseBrace:
      case TokenKind::kQuoted:
      case TokenKind::kIllegal:
      case TokenKind::kEnd:
        return false;
    }
    return false;
  }

  /// Parses unquoted text without the spaces around it. A single token has a type; several tokens
  /// form a string.
  Value text(bool is_key, bool takes_equal) {
    if (kind() == TokenKind::kBlank) lexer_.advance();
    const Token first = token();
    const Location start = where();
    std::string text;
    int count = 0;
    std::size_t trailing = 0;  // bytes of the trailing space
    bool may_be_equal = false;
    while (belongs_to_text(kind(), is_key, may_be_equal)) {
      const std::size_t before = text.size();
      text += kind() == TokenKind::kEscape ? without_backslashes(token().text)
                                           : std::string(token().text);
      const bool is_blank = kind() == TokenKind::kBlank;
      trailing = is_blank ? text.size() - before : 0;
      if (kind() == TokenKind::kEqual) trailing = text.size() - 1 - text.find_last_of('=');
      if (!is_blank) ++count;
      lexer_.advance();
      may_be_equal = is_extended_ && takes_equal;
      if (is_blank && belongs_to_text(kind(), is_key, may_be_equal)) ++count;
    }
    if (count == 0) unexpected();
    if (count == 1) return typed(first, start);
    text.resize(text.size() - trailing);
    return {std::move(text), start};
  }

  const SourceText& source_;
  const std::size_t start_;
  const bool is_extended_;
  OverridePlaces places_;
  OverrideLexer lexer_;
};

}  // namespace

Element read_override_value(const SourceText& source, std::size_t start) {
  try {
    return Parser(source, start, OverrideGrammar::kHydra).value();
  } catch (const OverrideError&) {
    return Parser(source, start, OverrideGrammar::kExtended).value();
  }
}

void fail_override(Location where, std::string message, std::string help, ErrorCode code) {
  throw OverrideError{{code, where, "", std::move(message), std::move(help)}};
}

Location OverridePlaces::at(std::size_t offset) {
  if (offset < offset_) {
    offset_ = line_start_ = 0;
    line_ = 1;
  }
  for (; offset_ < offset; ++offset_) {
    if (source_.contents[offset_] != '\n') continue;
    ++line_;
    line_start_ = offset_ + 1;
  }
  return {&source_, line_, static_cast<int>(offset - line_start_) + 1};
}

}  // namespace runner
