#include "stages/text/pieces.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>

#include "stages/text/code_points.h"
#include "stages/text/html_entity.h"

namespace stages {
namespace {

constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
// Taken whole where they begin a piece; transformers then divides them in three.
constexpr std::array<std::string_view, 2> kDividedMarks = {"<|startoftext|>", "<|endoftext|>"};
// As UTF-8 read as Latin-1 these two begin most letters of Europe, followed by what may be a space.
constexpr char32_t kCapitalAWithCircumflex = 0xC2, kCapitalAWithTilde = 0xC3;
constexpr char32_t kCapitalSigma = 0x3A3;  // in lower case it depends on its place

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char byte) { return byte < 0x80; });
}

/// Is `character` one that OpenAI's cleaning leaves as it is where no other than ASCII stands beside it?
bool is_kept_alone(char32_t character) {
  return character_class(character) == CharacterClass::kLetter && !is_compatibility_form(character) &&
         character != kCapitalAWithCircumflex && character != kCapitalAWithTilde && character != kCapitalSigma;
}

[[noreturn]] void refuse_character(char32_t character, const std::string& why) {
  char name[16];
  std::snprintf(name, sizeof name, "U+%04X", static_cast<unsigned>(character));
  throw std::invalid_argument(std::string(name) + " in it " + why);
}

void refuse_unclean(std::string_view text) {
  bool is_after_ascii = true;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    text.remove_prefix(point.bytes);
    const bool is_plain = point.value < 0x80;
    const char32_t value = point.value;
    if (value == '\v' || value == 0x7F || (value < ' ' && character_class(value) != CharacterClass::kSpace))
      refuse_character(value, "is a control character");
    if (value == '&' && may_be_entity(text)) refuse_character('&', "may begin an HTML entity");
    if (!is_plain && !is_after_ascii) refuse_character(value, "may be part of a character decoded wrongly");
    if (!is_plain && !is_kept_alone(value)) refuse_character(value, "may be one that is replaced");
    is_after_ascii = is_plain;
  }
}

/// `text` with characters in place of its HTML entities. What is left of an entity in an entity is one again.
std::string without_entities(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find('&'), text.size());
    result += text.substr(0, plain);
    text.remove_prefix(plain);
    if (const auto entity = html_entity(text)) {
      append_utf8(entity->value, result);
      text.remove_prefix(entity->bytes);
    } else if (!text.empty()) {
      result += '&';
      text.remove_prefix(1);
    }
  }
  return result;
}

std::optional<std::string_view> prefix_among(std::string_view text, std::span<const std::string_view> words) {
  const auto found = std::ranges::find_if(words, [&](std::string_view word) { return text.starts_with(word); });
  return found == words.end() ? std::nullopt : std::optional(text.substr(0, found->size()));
}

/// The bytes of the run of such characters that `text` begins with.
std::size_t run_length(CharacterClass wanted, std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const CodePoint point = first_code_point(text.substr(size));
    if (character_class(point.value) != wanted) break;
    size += point.bytes;
  }
  return size;
}

}  // namespace

std::string cleaned(std::string_view text, TextCleaning cleaning) {
  const bool is_openai = cleaning == TextCleaning::kOpenai;
  const std::string plain = is_openai ? without_entities(text) : std::string(text);
  if (is_openai) refuse_unclean(plain);
  const std::string whole = is_ascii(plain) ? plain : composed(plain);
  std::string result;
  result.reserve(whole.size());
  for (std::string_view rest = whole; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    append_lower_case(point.value, result);
    rest.remove_prefix(point.bytes);
  }
  return result;
}

void for_pieces(std::string_view text, TextCleaning cleaning, const std::function<void(std::string_view)>& use) {
  while (!text.empty()) {
    if (const auto mark = prefix_among(text, cleaning == TextCleaning::kOpenai ? kOpenaiMarks : kDividedMarks)) {
      if (cleaning == TextCleaning::kOpenai) {
        use(*mark);
      } else {
        use(mark->substr(0, 2));
        use(mark->substr(2, mark->size() - 4));
        use(mark->substr(mark->size() - 2));
      }
      text.remove_prefix(mark->size());
      continue;
    }
    const CodePoint first = first_code_point(text);
    const CharacterClass kind = character_class(first.value);
    const auto contraction = prefix_among(text, kContractions);
    const std::size_t size = contraction ? contraction->size()
                             : kind == CharacterClass::kSpace || kind == CharacterClass::kNumber
                                 ? first.bytes
                                 : run_length(kind, text);
    if (kind != CharacterClass::kSpace) use(text.substr(0, size));
    text.remove_prefix(size);
  }
}

}  // namespace stages
