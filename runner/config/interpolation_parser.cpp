#include "runner/config/interpolation_parser.h"

#include <algorithm>
#include <utility>

namespace runner {
namespace {

constexpr int kMaxDepth = 32;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_resolver_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.'; });
}

void add_text(TextPieces& pieces, std::string_view text) {
  if (text.empty()) return;
  if (!pieces.empty() && std::holds_alternative<std::string>(pieces.back()))
    std::get<std::string>(pieces.back()) += text;
  else pieces.emplace_back(std::string(text));
}

/// Reads from left to right; positions are offsets in the whole text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  /// Everything up to the end of the text.
  TextPieces whole() {
    TextPieces pieces;
    while (at_ < text_.size()) {
      const std::size_t start = text_.find("${", at_);
      if (start == text_.npos) {
        add_text(pieces, text_.substr(at_));
        break;
      }
      std::size_t backslashes = 0;
      while (start - backslashes > at_ && text_[start - backslashes - 1] == '\\') ++backslashes;
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
  [[noreturn]] void fail(std::string message) const { throw InterpolationSyntaxError{std::move(message)}; }

  std::unique_ptr<Interpolation> interpolation(int depth) {
    if (depth > kMaxDepth) fail("interpolations are nested more than 32 deep");
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
    while (take('.')) ++result.dots;
    while (true) {
      if (take('[')) {
        result.keys.push_back(key_part(depth));
        if (!take(']')) fail("a '[' without its ']'");
      } else {
        result.keys.push_back(key_part(depth));
      }
      if (peek() == '[') continue;
      if (!take('.')) break;
    }
    skip_blanks();
    if (!take('}')) fail(at_ < text_.size() ? "unexpected '" + std::string(1, peek()) + "'" : "a '${' without its '}'");
  }

  TextPieces key_part(int depth) {
    TextPieces pieces;
    if (at_interpolation()) {
      pieces.emplace_back(interpolation(depth + 1));
    } else {
      const std::size_t end = std::min(text_.find_first_of("\\{}()[]:. \t'\"$,", at_), text_.size());
      if (end == at_) fail(end == text_.size() ? "a '${' without its '}'" : "a key is missing");
      pieces.emplace_back(std::string(text_.substr(at_, end - at_)));
      at_ = end;
    }
    if (at_interpolation() || (pieces[0].index() == 1 && at_ < text_.size() && !is_blank(peek()) &&
                               std::string_view(".[]}").find(peek()) == std::string_view::npos)) {
      fail("a part of a key cannot be an interpolation; only a whole key can");
    }
    return pieces;
  }

  void arguments(Interpolation& result, int depth) {
    skip_blanks();
    if (take('}')) return;
    while (true) {
      skip_blanks();
      const bool quoted = peek() == '\'' || peek() == '"';
      result.quoted.push_back(quoted);
      result.arguments.push_back(quoted ? quoted_argument(depth) : plain_argument(depth));
      skip_blanks();
      if (take('}')) return;
      if (!take(','))
        fail(at_ < text_.size() ? "unexpected '" + std::string(1, peek()) + "'" : "a '${' without its '}'");
    }
  }

  TextPieces quoted_argument(int depth) {
    const char quote = text_[at_++];
    TextPieces pieces;
    while (!take(quote)) {
      if (at_ >= text_.size()) fail("the quote " + std::string(1, quote) + " is never closed");
      if (at_interpolation()) {
        pieces.emplace_back(interpolation(depth + 1));
      } else {
        if (peek() == '\\' && at_ + 1 < text_.size() && (text_[at_ + 1] == quote || text_[at_ + 1] == '\\')) ++at_;
        add_text(pieces, text_.substr(at_++, 1));
      }
    }
    return pieces;
  }

  /// Up to the comma or brace that ends it, blanks around it removed.
  TextPieces plain_argument(int depth) {
    TextPieces pieces;
    int open = 0;
    std::size_t blanks = 0;  // not yet known to be inside
    while (at_ < text_.size()) {
      const char c = peek();
      if (open == 0 && (c == ',' || c == '}')) break;
      if (at_interpolation()) {
        add_text(pieces, std::string(std::exchange(blanks, 0), ' '));
        pieces.emplace_back(interpolation(depth + 1));
        continue;
      }
      if (is_blank(c)) {
        ++blanks;
        ++at_;
        continue;
      }
      if (c == '[' || c == '{' || c == '(') ++open;
      if (c == ']' || c == '}' || c == ')') --open;
      add_text(pieces, std::string(std::exchange(blanks, 0), ' '));
      if (c == '\\' && at_ + 1 < text_.size()) ++at_;
      add_text(pieces, text_.substr(at_++, 1));
    }
    return pieces;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

TextPieces parse_interpolations(std::string_view text) { return Reader(text).whole(); }

bool is_item(const Interpolation& interpolation) {
  if (interpolation.dots > 0 || interpolation.keys.size() < 2) return false;
  const auto* first = std::get_if<std::string>(&interpolation.keys[0][0]);
  return first && *first == "item";
}

}  // namespace runner
