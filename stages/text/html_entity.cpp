#include "stages/text/html_entity.h"

#include <array>
#include <charconv>
#include <system_error>
#include <utility>

namespace stages {
namespace {

constexpr std::array<std::pair<std::string_view, char32_t>, 5> kEntities = {
    {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
constexpr std::size_t kMostDigits = 8;
constexpr char32_t kFirstAboveSigns = 0xC0, kFirstSurrogate = 0xD800;  // HTML reads some numbers as other characters

bool is_ascii_letter(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
}

bool is_read_as_it_is(char32_t character) {
  return (character >= ' ' && character < 0x7F) || (character >= kFirstAboveSigns && character < kFirstSurrogate);
}

/// The character whose number `text`, what stands between &# and the semicolon, is.
std::optional<char32_t> character_numbered(std::string_view text) {
  const bool is_hexadecimal = text.starts_with('x') || text.starts_with('X');
  if (is_hexadecimal) text.remove_prefix(1);
  if (text.empty() || text.size() > kMostDigits) return {};
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, is_hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || !is_read_as_it_is(number)) return {};
  return number;
}

}  // namespace

std::optional<CodePoint> html_entity(std::string_view text) {
  for (const auto& [entity, character] : kEntities) {
    if (text.starts_with(entity)) return CodePoint{character, entity.size()};
  }
  if (!text.starts_with("&#")) return {};
  const std::size_t end = text.find(';');
  if (end == text.npos) return {};
  const std::optional<char32_t> character = character_numbered(text.substr(2, end - 2));
  if (!character) return {};
  return CodePoint{*character, end + 1};
}

bool may_be_entity(std::string_view text) {
  if (text.starts_with('#')) return true;
  const auto is_of_name = [](char character) {
    return is_ascii_letter(character) || (character >= '0' && character <= '9');
  };
  return text.size() > 1 && is_ascii_letter(text[0]) && is_of_name(text[1]);
}

}  // namespace stages
