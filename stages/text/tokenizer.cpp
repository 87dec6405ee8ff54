#include "stages/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <zlib.h>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "stages/text/vocabulary.h"

namespace stages {
namespace {

constexpr std::array<std::string_view, 7> kContractions = {"'s", "'t",  "'re", "'ve",
                                                           "'m", "'ll", "'d"};
// Marks that transformers keeps in one piece at first, and then divides into "<|", the name and
// "|>".
constexpr std::array<std::string_view, 2> kDividedMarks = {"<|startoftext|>", "<|endoftext|>"};
// If UTF-8 is misread as Latin-1, most European letters begin with one of these two characters, and
// the next character may be a space.
constexpr char32_t kCapitalAWithCircumflex = 0xC2, kCapitalAWithTilde = 0xC3;
constexpr char32_t kCapitalSigma = 0x3A3;  // its lower case depends on the position in a word

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char byte) { return byte < 0x80; });
}

/// True if OpenAI's cleaning leaves `character` unchanged between ASCII neighbors.
bool is_kept_alone(char32_t character) {
  return character_class(character) == CharacterClass::kLetter &&
         !is_compatibility_form(character) && character != kCapitalAWithCircumflex &&
         character != kCapitalAWithTilde && character != kCapitalSigma;
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
    if (value == '\v' || value == 0x7F ||
        (value < ' ' && character_class(value) != CharacterClass::kSpace))
      refuse_character(value, "is a control character");
    if (value == '&' && may_be_entity(text)) refuse_character('&', "may begin an HTML entity");
    if (!is_plain && !is_after_ascii)
      refuse_character(value, "may be part of a wrongly decoded character");
    if (!is_plain && !is_kept_alone(value)) refuse_character(value, "may be replaced");
    is_after_ascii = is_plain;
  }
}

/// Returns `text` with HTML entities replaced by characters.
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

std::optional<std::string_view> prefix_among(std::string_view text,
                                             std::span<const std::string_view> words) {
  const auto found =
      std::ranges::find_if(words, [&](std::string_view word) { return text.starts_with(word); });
  return found == words.end() ? std::nullopt : std::optional(text.substr(0, found->size()));
}

/// Returns the length in bytes of the run of `wanted` characters at the beginning of `text`.
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

void for_pieces(std::string_view text, TextCleaning cleaning,
                const std::function<void(std::string_view)>& use) {
  while (!text.empty()) {
    if (const auto mark =
            prefix_among(text, cleaning == TextCleaning::kOpenai ? kOpenaiMarks : kDividedMarks)) {
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

namespace {

using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;
using runner::Result;

// transformers' start and end marks.
constexpr std::array<std::string_view, 2> kTokenMarks = {"<|startoftext|>", "<|endoftext|>"};
constexpr std::size_t kShownText = 60;  // the maximum number of bytes of a text shown in a message

Diagnostic bad_vocabulary(const std::filesystem::path& file, const std::string& why) {
  return {ErrorCode::kDamagedWeights,
          {},
          "",
          "'" + file.string() + "' is not a CLIP vocabulary: " + why,
          "use the file as published"};
}

constexpr const char *kMerges = "/merges", *kVocabulary = "/vocabulary";  // the options

/// Returns the first of `errors`, attributed to the option that specifies the file.
Diagnostic about(const char* option, Diagnostics errors) {
  errors.front().pointer = option;
  return std::move(errors.front());
}

/// Reads the vocabulary. Without a vocabulary file, the merges determine the token IDs.
Result<Vocabulary> vocabulary_of(const TokenizerOptions& options) {
  Result<std::string> merges =
      options.merges ? read_vocabulary_file(*options.merges) : Result<std::string>("#version\n");
  if (!merges) return about(kMerges, merges.errors());
  std::optional<Vocabulary> result;
  try {
    result = read_merges(*merges);
  } catch (const std::invalid_argument& error) {
    return about(kMerges, {bad_vocabulary(*options.merges, error.what())});
  }
  if (!options.vocabulary) return *std::move(result);
  const auto json = read_vocabulary_file(*options.vocabulary);
  if (!json) return about(kVocabulary, json.errors());
  try {
    return read_merges(*merges, *json);
  } catch (const std::invalid_argument& error) {
    return about(kVocabulary, {bad_vocabulary(*options.vocabulary, error.what())});
  }
}

Diagnostic bad_text(std::string_view text, const std::string& why, const std::string& help) {
  const std::string shown =
      runner::printable(text.substr(0, kShownText)) + (text.size() > kShownText ? "…" : "");
  return {ErrorCode::kBadAnnotations, {}, "", "the text '" + shown + "' " + why, help};
}

}  // namespace

Result<Tokenizer> Tokenizer::read(const TokenizerOptions& options) {
  const auto vocabulary = vocabulary_of(options);
  if (!vocabulary) return vocabulary.errors();
  Tokenizer tokenizer{BytePairs(vocabulary->bytes, vocabulary->pairs)};
  tokenizer.start_ = vocabulary->start;
  tokenizer.end_ = vocabulary->end;
  tokenizer.size_ = vocabulary->size;
  tokenizer.cleaning_ = options.cleaning;
  return tokenizer;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text) const {
  if (const auto bad = runner::invalid_utf8(text)) {
    return bad_text(text, "is not UTF-8 at byte " + std::to_string(*bad + 1),
                    "save the file that contains it as UTF-8");
  }
  std::vector<std::int32_t> tokens = {start_};
  try {
    // transformers finds its marks before cleaning the texts between them.
    std::size_t at = cleaning_ == TextCleaning::kTransformers ? text.find('<') : text.npos;
    while (at != text.npos) {
      const std::string_view rest = text.substr(at);
      const auto mark = std::ranges::find_if(
          kTokenMarks, [&](std::string_view mark) { return rest.starts_with(mark); });
      if (mark == kTokenMarks.end()) {
        at = text.find('<', at + 1);
        continue;
      }
      encode_plain(text.substr(0, at), tokens);
      tokens.push_back(mark == kTokenMarks.begin() ? start_ : end_);
      text = rest.substr(mark->size());
      at = text.find('<');
    }
    encode_plain(text, tokens);
  } catch (const std::invalid_argument& error) {
    return bad_text(
        text,
        std::string("may need a repair that Retort does not support with cleaning: openai: ") +
            error.what(),
        "write the text without such characters, or set cleaning: transformers");
  }
  tokens.push_back(end_);
  return tokens;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& tokens) const {
  for_pieces(cleaned(text, cleaning_), cleaning_, [&](std::string_view piece) {
    if (cleaning_ == TextCleaning::kOpenai && piece == kOpenaiMarks[0]) tokens.push_back(start_);
    else if (cleaning_ == TextCleaning::kOpenai && piece == kOpenaiMarks[1]) tokens.push_back(end_);
    else pairs_.encode(piece, tokens);
  });
}

bool cut_tokens(std::vector<std::int32_t>& tokens, std::size_t length) {
  if (tokens.size() <= length) return false;
  tokens[length - 1] = tokens.back();
  tokens.resize(length);
  return true;
}

namespace {

namespace fs = std::filesystem;
using runner::Diagnostic;
using runner::ErrorCode;

constexpr std::string_view kGzipStart = "\x1f\x8b";
constexpr int kGzipWindow = 15 + 16;  // the largest window, and gzip's header

Diagnostic unusable(const fs::path& file, const std::string& why) {
  return {ErrorCode::kDamagedWeights,
          {},
          "",
          "'" + file.string() + "' " + why,
          "use the file as published"};
}

Diagnostic too_long(const fs::path& file) {
  return unusable(file, "is longer than " + std::to_string(kMaxVocabularyBytes >> 20) + " MiB");
}

/// Decompresses `packed`, up to one byte more than the limit. Returns nullopt if it is damaged.
std::optional<std::string> unpacked(std::string_view packed) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> guard(&stream, &inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 64 << 10> piece;
  int state = Z_OK;
  while (state == Z_OK && text.size() <= kMaxVocabularyBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(piece.data(), piece.size() - stream.avail_out);
  }
  if (state != Z_STREAM_END && state != Z_OK) return std::nullopt;
  return text;
}

}  // namespace

runner::Result<std::string> read_vocabulary_file(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) {
    return Diagnostic{ErrorCode::kMissingWeights,
                      {},
                      "",
                      "there is no file '" + file.string() + "'",
                      "put it there; it is published with the weights"};
  }
  // Reading a pipe would block, and reading a device would never end.
  if (!fs::is_regular_file(status)) return unusable(file, "is not a file");
  std::ifstream stream = runner::open_regular(file, std::ios::binary);
  std::string bytes;
  std::array<char, 64 << 10> piece;
  while (stream.read(piece.data(), piece.size()), stream.gcount() > 0) {
    bytes.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (bytes.size() > kMaxVocabularyBytes) return too_long(file);
  }
  if (!stream.eof()) return unusable(file, "cannot be read");
  if (!bytes.starts_with(kGzipStart)) return bytes;
  auto text = unpacked(bytes);
  if (!text) return unusable(file, "is damaged: it cannot be decompressed");
  if (text->size() > kMaxVocabularyBytes) return too_long(file);
  return *std::move(text);
}

namespace {

constexpr std::array<std::pair<std::string_view, char32_t>, 5> kEntities = {
    {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
constexpr std::size_t kMostDigits = 8;
// HTML maps some of the other numbers to different characters.
constexpr char32_t kFirstAboveSigns = 0xC0, kFirstSurrogate = 0xD800;

bool is_ascii_letter(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
}

bool is_read_as_it_is(char32_t character) {
  return (character >= ' ' && character < 0x7F) ||
         (character >= kFirstAboveSigns && character < kFirstSurrogate);
}

/// Returns the character for `text`, the number between &# and the semicolon; nullopt if it is not
/// supported.
std::optional<char32_t> character_numbered(std::string_view text) {
  const bool is_hexadecimal = text.starts_with('x') || text.starts_with('X');
  if (is_hexadecimal) text.remove_prefix(1);
  if (text.empty() || text.size() > kMostDigits) return {};
  std::uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, is_hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size() || !is_read_as_it_is(number))
    return {};
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
