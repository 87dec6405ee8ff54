#include "runner/shared/text/printable.h"

#include <algorithm>
#include <cctype>

namespace runner {
namespace {

bool continues(unsigned char c) { return (c & 0xC0) == 0x80; }

/// Returns the number of bytes of the well-formed UTF-8 character at the start of `text`; 0 if
/// there is none.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xC2 && lead < 0xE0 ? 2
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xF0 && lead < 0xF5 ? 4
                                                         : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(byte(i))) return 0;
  }
  if (size == 3 && ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0)))
    return 0;
  if (size == 4 && ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90)))
    return 0;
  return size;
}

/// Returns the code point of a well-formed UTF-8 character.
unsigned code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first;
  unsigned code = first & (0x7Fu >> character.size());
  for (const char next : character.substr(1))
    code = code << 6 | (static_cast<unsigned char>(next) & 0x3Fu);
  return code;
}

/// True if a terminal interprets `code`, or displays the text after it in a different order or on
/// another line.
bool is_control(unsigned code) {
  const bool turns = code == 0x061C || code == 0x200E || code == 0x200F ||
                     (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return (code < 0x20 && code != '\t') || (code >= 0x7F && code < 0xA0) || turns ||
         code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) result += '?';
    else if (is_control(code_point(text.substr(0, size)))) result += ' ';
    else result += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string printable_json(std::string_view json) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result;
  result.reserve(json.size());
  while (!json.empty()) {
    const std::size_t size = std::max<std::size_t>(character_size(json), 1);
    const unsigned code = code_point(json.substr(0, size));
    if (code >= 0x7F && is_control(code)) {
      result += "\\u";
      for (const int shift : {12, 8, 4, 0}) result += kHex[code >> shift & 15];
    } else {
      result += json.substr(0, size);
    }
    json.remove_prefix(size);
  }
  return result;
}

std::string printable_ascii(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string result(text.substr(0, kLongest));
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text.size() > kLongest ? result + "…" : result;
}

std::size_t columns(std::string_view text) {
  return std::ranges::count_if(text, [](unsigned char c) { return !continues(c); });
}

std::string_view first_columns(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  while (end < text.size() && (count > 0 || continues(text[end]))) {
    if (!continues(text[end])) --count;
    ++end;
  }
  return text.substr(0, end);
}

std::string cut_to_width(std::string_view line, std::size_t most) {
  if (columns(line) <= most) return std::string(line);
  if (most < 3) return std::string(first_columns(line, most));
  std::string_view start = first_columns(line, most - 1);  // a space may follow the last word
  const std::size_t end = start.find_last_of(' ');
  if (end == start.npos) return std::string(first_columns(line, most - 1)) + "…";
  start = start.substr(0, start.find_last_not_of(' ', end) + 1);
  return std::string(start) + " …";
}

std::string without_middle(std::string_view text, std::size_t most) {
  const std::size_t count = columns(text);
  if (count <= most) return std::string(text);
  if (most == 0) return "";
  const auto is_of_number = [](unsigned char c) { return std::isdigit(c) || c == '.'; };
  std::string_view head = first_columns(text, most / 2);
  std::string_view tail = text.substr(first_columns(text, count - (most - 1 - most / 2)).size());
  while (!head.empty() && is_of_number(head.back()) && is_of_number(text[head.size()]))
    head.remove_suffix(1);
  while (!tail.empty() && is_of_number(tail.front()) &&
         is_of_number(text[text.size() - tail.size() - 1]))
    tail.remove_prefix(1);
  return std::string(head) + "…" + std::string(tail);
}

}  // namespace runner
