#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stages {

/// What a tokenizer tells characters apart by; the tables of Unicode are utf8proc's.
enum class CharacterClass { kSpace, kLetter, kNumber, kOther };

CharacterClass character_class(char32_t character);

/// Does Unicode call `character` another form of others, as it does a ligature or a full-width letter?
bool is_compatibility_form(char32_t character);

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< that it takes in UTF-8
};

/// The first character of `text`, which is well-formed UTF-8 and not empty.
CodePoint first_code_point(std::string_view text);

void append_utf8(char32_t character, std::string& text);

/// Adds `character` in lower case as it stands by itself: Σ becomes σ, also at the end of a word.
void append_lower_case(char32_t character, std::string& text);

/// `text`, which is well-formed UTF-8, in Unicode's normalization form C.
std::string composed(std::string_view text);

/// The same for texts, well-formed UTF-8, that differ in the case of letters alone, or in how accents are written.
std::string folded(std::string_view text);

}  // namespace stages
