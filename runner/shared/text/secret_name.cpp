#include "runner/shared/text/secret_name.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

std::string in_capitals(std::string_view name) {
  std::string result(name);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

std::string without(std::string name, std::string_view word) {
  for (std::size_t at; (at = name.find(word)) != name.npos;) name.erase(at, word.size());
  return name;
}

bool has_any(const std::string& name, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* word) { return name.find(word) != name.npos; });
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.ends_with(word); });
}

/// DB_PASS and DBPASS, but neither BYPASS nor memory.two_pass.
bool is_pass(std::string_view name) {
  return name.ends_with("PASS") && !ends_with_any(name, {"BYPASS", "COMPASS", "TWO_PASS"});
}

/// Does it tell of a secret by another word than token or key?
bool names_password(const std::string& name) {
  const std::string rest = without(name, "AUTHORI");  // AUTHORIZATION is one, AUTHOR none
  return rest.size() < name.size() || is_pass(name) ||
         has_any(without(rest, "AUTHOR"),
                 {"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "AUTH", "CREDENTIAL"});
}

bool is_name_letter(char letter) {
  return is_letter(letter) || is_digit(letter) || letter == '_' || letter == '-' || letter == '.';
}

/// Is `value`, as it is written, what a secret is not: nothing, an interpolation, a container, a
/// truth?
bool is_no_secret(std::string_view value) {
  while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
  return value.empty() || value.front() == '{' || value.front() == '[' || value.front() == '#' ||
         value.starts_with("${") || value == "true" || value == "false" || value == "null";
}

}  // namespace

bool names_a_secret(std::string_view variable) {
  const std::string name = in_capitals(variable);
  return has_any(name, {"TOKEN", "KEY"}) || names_password(name);
}

bool is_secret_key(std::string_view key) {
  return names_a_secret(without(without(in_capitals(key), "TOKENIZER"), "OC.DICT.KEYS"));
}

bool is_secret_key_of(std::string_view key, std::int64_t number) {
  constexpr std::int64_t kNoCount =
      100000;  // a token or a key of digits is longer than a size or an index
  const std::string name = in_capitals(key);
  if (is_pass(name) ||
      ends_with_any(name, {"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "AUTH", "CREDENTIAL"}))
    return true;
  return ends_with_any(name, {"TOKEN", "KEY"}) && (number >= kNoCount || number <= -kNoCount);
}

std::string quotable_line(std::string_view line) {
  std::string result(line);
  bool has_opened = false;    // a mapping or a list
  std::size_t next_stop = 0;  // that ends a value in one; looked for once
  for (std::size_t at = 0; at < line.size(); ++at) {
    has_opened = has_opened || line[at] == '{' || line[at] == '[';
    if (line[at] != ':' && line[at] != '=') continue;
    std::size_t begin = at;
    while (begin > 0 && is_name_letter(line[begin - 1])) --begin;
    std::size_t value = at + 1;
    while (value < line.size() &&
           (is_blank(line[value]) || line[value] == '\'' || line[value] == '"'))
      ++value;
    const std::string_view key = line.substr(begin, at - begin);
    if (key.empty() || !is_secret_key(key)) continue;
    // A mapping on one line goes on after the value.
    const bool is_inside = line[at] == ':' && has_opened;
    if (next_stop < value) next_stop = std::min(line.find_first_of(",}]", value), line.size());
    const std::size_t end = is_inside ? next_stop : line.size();
    if (is_no_secret(line.substr(value, end - value))) continue;
    std::int64_t number = 0;
    bool is_number = end > value;
    for (std::size_t i = value; i < end; ++i) {
      is_number = is_number && is_digit(line[i]) && end - value < 18;
      if (is_number) number = 10 * number + (line[i] - '0');
    }
    if (is_number && !is_secret_key_of(key, number)) continue;
    std::fill(result.begin() + static_cast<std::ptrdiff_t>(value),
              result.begin() + static_cast<std::ptrdiff_t>(end), '*');
    at = std::max(at, end - 1);
  }
  return result;
}

}  // namespace runner
