#include "runner/parent/config/interpolation_parser.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "runner/parent/config/override_value.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

constexpr int kDeepestExpression = 32;

bool is_resolver_name(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
  });
}

void add_text(TextPieces& pieces, std::string_view text) {
  if (text.empty()) return;
  if (!pieces.empty() && std::holds_alternative<std::string>(pieces.back()))
    std::get<std::string>(pieces.back()) += text;
  else pieces.emplace_back(std::string(text));
}

/// Returns the number of backslashes directly before `at`, looking back no further than `start`.
std::size_t backslashes_before(std::string_view text, std::size_t at, std::size_t start) {
  std::size_t count = 0;
  while (at - count > start && text[at - count - 1] == '\\') ++count;
  return count;
}

/// A string in the override grammar with placeholders for interpolations, because that grammar
/// cannot determine where they end: "a${0}${1}" stands for "a" and the interpolations 0 and 1.
struct Template {
  std::string text;
  std::vector<std::string> interpolations;

  /// Returns `part` with its placeholders replaced by the interpolations.
  std::string filled(const std::string& part) const {
    std::string result;
    std::size_t at = 0;
    for (std::size_t start; (start = part.find("${", at)) != part.npos;) {
      std::size_t index = 0;
      const auto end =
          std::from_chars(part.data() + start + 2, part.data() + part.size(), index).ptr;
      const bool is_escaped = backslashes_before(part, start, at) % 2 == 1;
      if (is_escaped || index >= interpolations.size() || end == part.data() + part.size() ||
          *end != '}') {
        result += part.substr(at, start + 2 - at);
        at = start + 2;
      } else {
        result += part.substr(at, start - at) + interpolations[index];
        at = static_cast<std::size_t>(end - part.data()) + 1;
      }
    }
    return result + part.substr(at);
  }
};

/// Replaces the placeholders in `value` and clears its locations, which point into a temporary
/// string.
void finish(Value& value, const Template& written) {
  value.where = {};
  if (auto* text = std::get_if<std::string>(&value.data)) *text = written.filled(*text);
  if (auto* list = value.list()) {
    for (Value& item : *list) finish(item, written);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map) {
      entry.key = written.filled(entry.key);
      entry.key_where = {};
      finish(entry.value, written);
    }
  }
}

Value read(const Template& written) {
  const SourceText source{"", written.text};
  try {
    Element element = read_override_value(source, 0);
    if (!element.value())
      throw InterpolationSyntaxError{"a sweep or an edit is not a value", "write a single value"};
    finish(*element.value(), written);
    return *std::move(element.value());
  } catch (const OverrideError& error) {
    throw InterpolationSyntaxError{error.diagnostic.message,
                                   "put an argument with special characters in quotes"};
  }
}

/// Parses from left to right; positions are offsets in the whole text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  /// Parses everything up to the end of the text.
  TextPieces whole() {
    TextPieces pieces;
    while (at_ < text_.size()) {
      const std::size_t start = text_.find("${", at_);
      if (start == text_.npos) {
        add_text(pieces, text_.substr(at_));
        break;
      }
      const std::size_t backslashes = backslashes_before(text_, start, at_);
      add_text(pieces, text_.substr(at_, start - backslashes - at_));
      add_text(pieces, std::string(backslashes / 2, '\\'));
      at_ = start;
      if (backslashes % 2 == 1) {
        add_text(pieces, "${");
        at_ += 2;
      } else {
        pieces.emplace_back(interpolation(0));
      }
    }
    return pieces;
  }

  /// Parses the whole text as a key.
  Interpolation whole_key() {
    Interpolation result;
    key_parts(result, 0);
    if (at_ < text_.size()) fail("unexpected '" + std::string(1, peek()) + "'");
    return result;
  }

  /// Parses a value that fills the whole text.
  Value whole_value() { return read(value_template(0, false)); }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (is_blank(peek())) ++at_;
  }
  bool at_interpolation() const { return text_.substr(at_).starts_with("${"); }
  [[noreturn]] void fail(std::string message) const {
    throw InterpolationSyntaxError{std::move(message)};
  }

  std::unique_ptr<Interpolation> interpolation(int depth) {
    if (depth > kDeepestExpression) fail("interpolations are nested more than 32 levels deep");
    const std::size_t start = at_;
    at_ += 2;
    auto result = std::make_unique<Interpolation>();
    skip_blanks();
    const std::size_t name_end = text_.find_first_of(":${}[]()'\" \t,", at_);
    const bool names_resolver = name_end != text_.npos && text_[name_end] == ':';
    if (names_resolver && is_resolver_name(text_.substr(at_, name_end - at_))) {
      result->resolver = text_.substr(at_, name_end - at_);
      at_ = name_end + 1;
      arguments(*result, depth);
    } else {
      key(*result, depth);
    }
    result->written = text_.substr(start, at_ - start);
    return result;
  }

  void key(Interpolation& result, int depth) {
    key_parts(result, depth);
    skip_blanks();
    if (!take('}'))
      fail(at_ < text_.size() ? "unexpected '" + std::string(1, peek()) + "'"
                              : "a '${' has no matching '}'");
  }

  void key_parts(Interpolation& result, int depth) {
    while (take('.')) ++result.dots;
    while (true) {
      if (take('[')) {
        result.keys.push_back(key_part(depth));
        if (!take(']')) fail("a '[' has no matching ']'");
      } else {
        result.keys.push_back(key_part(depth));
      }
      if (peek() == '[') continue;
      if (!take('.')) break;
    }
  }

  TextPieces key_part(int depth) {
    TextPieces pieces;
    if (at_interpolation()) {
      pieces.emplace_back(interpolation(depth + 1));
    } else {
      std::size_t end = std::min(text_.find_first_of("\\{}()[]:. \t'\"", at_), text_.size());
      if (end > at_ && end < text_.size() && text_[end] == '{' && text_[end - 1] == '$') --end;
      if (end == at_) fail(end == text_.size() ? "a '${' has no matching '}'" : "a key is missing");
      pieces.emplace_back(std::string(text_.substr(at_, end - at_)));
      at_ = end;
    }
    if (at_interpolation() || (pieces[0].index() == 1 && at_ < text_.size() && !is_blank(peek()) &&
                               std::string_view(".[]}").find(peek()) == std::string_view::npos)) {
      fail("an interpolation must be a whole key, not part of one");
    }
    return pieces;
  }

  void arguments(Interpolation& result, int depth) {
    skip_blanks();
    if (take('}')) return;
    while (true) {
      result.arguments.push_back(read(value_template(depth, true)));
      if (take('}')) return;
      if (!take(',')) fail("a '${' has no matching '}'");
    }
  }

  /// Parses up to the end of the text. An argument ends at the next ',' or '}', and does not
  /// include the spaces around it.
  Template value_template(int depth, bool is_argument) {
    Template result;
    const std::size_t start = at_;
    int open = 0;
    char quote = '\0';
    for (; at_ < text_.size(); ++at_) {
      const char c = peek();
      if (is_argument && !quote && open == 0 && (c == ',' || c == '}')) break;
      if (at_interpolation() && backslashes_before(text_, at_, start) % 2 == 0) {
        const auto inner = interpolation(depth + 1);
        result.text += "${" + std::to_string(result.interpolations.size()) + "}";
        result.interpolations.push_back(inner->written);
        --at_;
        continue;
      }
      result.text += c;
      if (quote) {
        if (c == quote && backslashes_before(text_, at_, start) % 2 == 0) quote = '\0';
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '\\' && at_ + 1 < text_.size() && is_escapable(text_[at_ + 1])) {
        result.text += text_[++at_];
      } else {
        open += c == '[' || c == '{' || c == '(';
        open -= c == ']' || c == '}' || c == ')';
      }
    }
    if (is_argument) trim(result.text);
    return result;
  }

  static bool is_escapable(char c) {
    return std::string_view("\\()[]{}:=, \t").find(c) != std::string_view::npos;
  }

  static void trim(std::string& text) {
    while (!text.empty() && is_blank(text.back()) && !text.ends_with("\\ ") &&
           !text.ends_with("\\\t"))
      text.pop_back();
    text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

TextPieces parse_interpolations(std::string_view text) { return Reader(text).whole(); }

Interpolation parse_interpolation_key(std::string_view text) { return Reader(text).whole_key(); }

Value parse_written_value(std::string_view text) { return Reader(text).whole_value(); }

bool is_item(const Interpolation& interpolation) {
  if (interpolation.dots > 0 || interpolation.keys.size() < 2) return false;
  const auto* first = std::get_if<std::string>(&interpolation.keys[0][0]);
  return first && *first == "item";
}

void for_all(Value& value, const std::function<void(Value&)>& change) {
  change(value);
  if (auto* list = value.list()) {
    for (Value& item : *list) for_all(item, change);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map) for_all(entry.value, change);
  }
}

std::size_t copy_cost(const Value& value) {
  std::size_t total = 1 + value.secret_as.size() / 256;
  if (const auto* text = value.reveal()) total += text->size() / 256;
  if (const auto* list = value.list()) {
    for (const Value& item : *list) total += copy_cost(item);
  }
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) total += copy_cost(entry.value);
  }
  return total;
}

std::string quoted_reference(const Interpolation& interpolation) {
  constexpr std::size_t kMaxShown = 200;
  if (interpolation.written.size() <= kMaxShown) return "'" + interpolation.written + "'";
  return describe({interpolation.written, {}});
}

bool keeps_item(const TextPieces& pieces) {
  return std::ranges::any_of(pieces, [](const TextPiece& piece) {
    const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&piece);
    return inner && is_item(**inner);
  });
}

bool holds_item(const std::string& text) {
  try {
    return keeps_item(parse_interpolations(text));
  } catch (const InterpolationSyntaxError&) {
    return false;
  }
}

std::string escaped(const std::string& literal) {
  std::string result;
  std::size_t backslashes = 0;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal.compare(i, 2, "${") == 0) result.append(backslashes + 1, '\\');
    backslashes = literal[i] == '\\' ? backslashes + 1 : 0;
    result += literal[i];
  }
  return result;
}

}  // namespace runner
