#include "runner/parent/schema/pattern.h"

#include <algorithm>
#include <regex>

namespace runner {
namespace {

constexpr std::size_t kMaxExpression = 1000;  // bytes: the compiler of expressions recurses

/// Length in bytes that the first byte of a character announces; 1 for a byte that starts none.
std::size_t announced_length(unsigned char first) {
  if (first >= 0xF0 && first < 0xF8) return 4;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xC0 && first < 0xE0) return 2;
  return 1;
}

std::wstring wide_characters(std::string_view text) {
  static_assert(sizeof(wchar_t) == 4);
  std::wstring result;
  while (!text.empty()) {
    std::size_t length = announced_length(text[0]);
    const auto continues = [](unsigned char c) { return (c & 0xC0) == 0x80; };
    if (length > text.size() || !std::ranges::all_of(text.substr(1, length - 1), continues)) length = 1;
    unsigned code = static_cast<unsigned char>(text[0]);
    if (length > 1) code &= 0xFFu >> (length + 1);
    for (std::size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
    result += static_cast<wchar_t>(code);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

struct Pattern::Compiled {
  std::wregex regex;
};

Pattern::Pattern(std::string expression, std::shared_ptr<const Compiled> compiled)
    : expression_(std::move(expression)), compiled_(std::move(compiled)) {}

std::optional<Pattern> Pattern::compile(std::string_view expression) {
  if (expression.size() > kMaxExpression) return std::nullopt;
  try {
    // libstdc++'s breadth-first matcher: no recursion a character, no exponential time.
    constexpr auto kFlags = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;
    auto compiled = std::make_shared<const Compiled>(Compiled{std::wregex(wide_characters(expression), kFlags)});
    return Pattern(std::string(expression), std::move(compiled));
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

bool Pattern::matches(std::string_view text) const {
  if (text.size() > 4 * kMaxText) return false;
  const std::wstring wide = wide_characters(text);
  return wide.size() <= kMaxText && std::regex_search(wide, compiled_->regex);
}

std::size_t character_count(std::string_view text) {
  return text.size() <= 1 ? text.size() : wide_characters(text).size();
}

}  // namespace runner
