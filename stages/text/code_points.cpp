#include "stages/text/code_points.h"

#include <cstdlib>
#include <memory>
#include <new>

#include <utf8proc.h>

namespace stages {
namespace {

constexpr char32_t kCapitalIWithDot = 0x130, kCombiningDot = 0x307;

const utf8proc_uint8_t* utf8proc_bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

}  // namespace

CharacterClass character_class(char32_t character) {
  if ((character >= '\t' && character <= '\r') || character == 0x85) return CharacterClass::kSpace;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return CharacterClass::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return CharacterClass::kNumber;
  if (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP) return CharacterClass::kSpace;
  return CharacterClass::kOther;
}

bool is_compatibility_form(char32_t character) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->decomp_type != 0;
}

CodePoint first_code_point(std::string_view text) {
  utf8proc_int32_t character = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(utf8proc_bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &character);
  return {static_cast<char32_t>(character), static_cast<std::size_t>(bytes)};
}

void append_utf8(char32_t character, std::string& text) {
  utf8proc_uint8_t bytes[4] = {};
  const utf8proc_ssize_t count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

void append_lower_case(char32_t character, std::string& text) {
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))), text);
  // The one character whose lower case is two, whatever the language.
  if (character == kCapitalIWithDot) append_utf8(kCombiningDot, text);
}

std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(utf8proc_bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (bytes < 0) throw std::bad_alloc();
  return std::string(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
}

std::string folded(std::string_view text) {
  std::string lower;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append_lower_case(point.value, lower);
    text.remove_prefix(point.bytes);
  }
  return composed(lower);
}

}  // namespace stages
