#include "runner/parent/schema/schema_phrase.h"

#include <algorithm>
#include <tuple>

namespace runner {
namespace {

constexpr std::size_t kMaxWord = 60;  // bytes of the user's text in a message
constexpr int kMaxNestedPhrases = 8;  // alternatives within alternatives

std::string cut(std::string_view word) {
  if (word.size() <= kMaxWord) return std::string(word);
  std::size_t end = kMaxWord;
  while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;
  return std::string(word.substr(0, end)) + "…";
}

std::string or_joined(std::vector<std::string> words) {
  std::vector<std::string> different;
  for (std::string& word : words) {
    if (!std::ranges::count(different, word)) different.push_back(std::move(word));
  }
  std::string result;
  for (std::size_t i = 0; i < different.size(); ++i) {
    if (i > 0) result += i + 1 < different.size() ? ", " : ", or ";
    result += different[i];
  }
  return result;
}

std::string expected(const SchemaNode& schema, std::string_view unit, int depth) {
  if (!schema.unit.empty()) unit = schema.unit;
  if (schema.target) return expected(*schema.target, unit, depth);
  if (schema.allowed) {
    std::vector<std::string> words;
    for (const Value& value : *schema.allowed) words.push_back(bare(value));
    return or_joined(std::move(words));
  }
  const auto& alternatives = schema.any_of.empty() ? schema.one_of : schema.any_of;
  if (!alternatives.empty() && schema.types == 0 && depth < kMaxNestedPhrases) {
    std::vector<std::string> words;
    for (const SchemaNode* part : alternatives) words.push_back(expected(*part, unit, depth + 1));
    return or_joined(std::move(words));
  }
  if (!schema.all_of.empty() && schema.types == 0 && depth < kMaxNestedPhrases) {
    return expected(*schema.all_of.front(), unit, depth + 1);
  }
  if (schema.kinds_in) return "a mapping";
  const std::string range = range_phrase(schema, unit);
  if (range.empty()) return type_phrase(schema.types);
  const bool numeric = (schema.types & ~(kIntegerType | kNumberType)) == 0;
  return (numeric && schema.types ? type_phrase(schema.types) : "a number") + " " + range;
}

}  // namespace

std::string expected(const SchemaNode& schema, std::string_view unit) { return expected(schema, unit, 0); }

std::string type_phrase(unsigned types) {
  constexpr std::pair<unsigned, std::string_view> kWords[] = {{kBooleanType, "true or false"},
                                                              {kIntegerType, "an integer"},
                                                              {kNumberType, "a number"},
                                                              {kStringType, "a string"},
                                                              {kArrayType, "a list"},
                                                              {kObjectType, "a mapping"},
                                                              {kNullType, "null"}};
  if (types & kNumberType) types &= ~kIntegerType;
  std::vector<std::string> words;
  for (const auto& [type, word] : kWords) {
    if (types & type) words.emplace_back(word);
  }
  return words.empty() ? "another value" : or_joined(std::move(words));
}

std::string range_phrase(const SchemaNode& schema, std::string_view unit) {
  if (!schema.unit.empty()) unit = schema.unit;
  const auto& [low, high] = std::tie(schema.minimum, schema.maximum);
  const auto& [above, below] = std::tie(schema.exclusive_minimum, schema.exclusive_maximum);
  std::string range;
  if (low && high && !above && !below) {
    range = "from " + describe(*low) + " to " + describe(*high);
  } else {
    if (low) range = "of at least " + describe(*low);
    if (above) range += (range.empty() ? "above " : " and above ") + describe(*above);
    if (high) range += (range.empty() ? "of at most " : " and at most ") + describe(*high);
    if (below) range += (range.empty() ? "below " : " and below ") + describe(*below);
  }
  if (!range.empty() && !unit.empty()) range += " (" + std::string(unit) + ")";
  return range;
}

std::string found_phrase(const Value& value) {
  if (value.form == ScalarForm::kBigInteger && value.text() && value.secret_as.empty())
    return cut(*value.text()) + ", which needs more than the 64 bits of an integer with a sign";
  return value.text() && value.secret_as.empty() ? "the string " + describe(value) : describe(value);
}

std::string bare(const Value& value) {
  return value.text() && value.secret_as.empty() ? cut(*value.text()) : describe(value);
}

std::string in_quotes(std::string_view word) { return "'" + cut(word) + "'"; }

std::string joined(std::span<const std::string> words, std::size_t limit) {
  std::string result;
  for (std::size_t i = 0; i < std::min(words.size(), limit); ++i) result += (i > 0 ? ", " : "") + words[i];
  return words.size() > limit ? result + ", …" : result;
}

std::string counted(std::size_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace runner
