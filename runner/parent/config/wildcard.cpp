#include "runner/parent/config/wildcard.h"

#include <string>

#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

std::u32string characters(std::string_view text) {
  const bool is_utf8 = !invalid_utf8(text);
  std::u32string result;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (!is_utf8 || byte < 0x80) result.push_back(byte);
    else if (byte < 0xC0) result.back() = result.back() << 6 | (byte & 0x3F);
    else result.push_back(byte & (byte < 0xE0 ? 0x1F : byte < 0xF0 ? 0x0F : 0x07));
  }
  return result;
}

/// Where the ']' stands that closes the set opened at `open`; npos: nothing closes it. One that comes first is a
/// member.
std::size_t end_of_set(std::u32string_view pattern, std::size_t open) {
  std::size_t at = open + 1;
  if (at < pattern.size() && pattern[at] == '!') ++at;
  return pattern.find(U']', at + 1);
}

/// Is `character` one of `members`, the text between the brackets?
bool is_in_set(char32_t character, std::u32string_view members) {
  const bool is_negated = members.starts_with(U'!');
  if (is_negated) members.remove_prefix(1);
  bool is_member = false;
  while (!members.empty()) {
    const bool is_range = members.size() > 2 && members[1] == '-';
    const char32_t last = is_range ? members[2] : members[0];
    is_member |= members[0] <= character && character <= last;
    members.remove_prefix(is_range ? 3 : 1);
  }
  return is_member != is_negated;
}

/// How much of the pattern from `at` on, which is no '*', stands for `character`; 0: it does not.
std::size_t length_of_match(char32_t character, std::u32string_view pattern, std::size_t at) {
  if (pattern[at] == '?') return 1;
  const std::size_t end = pattern[at] == '[' ? end_of_set(pattern, at) : pattern.npos;
  if (end == pattern.npos) return pattern[at] == character ? 1 : 0;
  return is_in_set(character, pattern.substr(at + 1, end - at - 1)) ? end - at + 1 : 0;
}

}  // namespace

bool matches_wildcard(std::string_view name_text, std::string_view pattern_text) {
  const std::u32string name = characters(name_text), pattern = characters(pattern_text);
  std::size_t in_name = 0, in_pattern = 0;
  // The latest '*' and where what it stands for ends. Earlier ones need not stand for more: this one can.
  std::size_t star = pattern.npos, star_end = 0;
  while (in_name < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      star_end = in_name;
      continue;
    }
    const std::size_t length = in_pattern < pattern.size() ? length_of_match(name[in_name], pattern, in_pattern) : 0;
    if (length > 0) {
      in_pattern += length;
      ++in_name;
    } else if (star != pattern.npos) {
      in_pattern = star + 1;
      in_name = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of(U'*', in_pattern) == pattern.npos;
}

}  // namespace runner
