#include "runner/shared/text/secret_name.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <vector>

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

/// Matches DB_PASS and DBPASS, but neither BYPASS nor memory.two_pass.
bool is_pass(std::string_view name) {
  return name.ends_with("PASS") && !ends_with_any(name, {"BYPASS", "COMPASS", "TWO_PASS"});
}

/// True if `name` contains a word other than TOKEN and KEY that marks a secret.
bool names_password(const std::string& name) {
  const std::string rest = without(name, "AUTHORI");  // AUTHORIZATION is a secret, AUTHOR is not
  return rest.size() < name.size() || is_pass(name) ||
         has_any(without(rest, "AUTHOR"),
                 {"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "AUTH", "CREDENTIAL"});
}

bool is_name_letter(char letter) {
  return is_letter(letter) || is_digit(letter) || letter == '_' || letter == '-' || letter == '.';
}

/// True if `value`, as written, cannot be a secret because it is empty, an interpolation, a
/// container, a boolean or null.
bool is_no_secret(std::string_view value) {
  while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
  return value.empty() || value.front() == '{' || value.front() == '[' || value.front() == '#' ||
         value.starts_with("${") || value == "true" || value == "false" || value == "null";
}

/// True if `value`, under a secret `key`, is a number that may be a count.
bool is_count(std::string_view key, std::string_view value) {
  constexpr std::size_t kMostDigits = 17;
  if (value.empty() || value.size() > kMostDigits || !std::ranges::all_of(value, is_digit))
    return false;
  std::int64_t number = 0;
  for (const char digit : value) number = 10 * number + (digit - '0');
  return !is_secret_key_of(key, number);
}

/// Part of a string, from byte `begin` to `end`.
struct Span {
  std::size_t begin, end;
};

/// Returns the positions of the secrets in the URLs of `text`, in order.
std::vector<Span> url_secrets(std::string_view text) {
  std::vector<Span> found;
  constexpr std::string_view kStart = "://", kStops = " \t\r\n'\"<>`", kMask = "***";
  const auto add = [&](std::size_t begin, std::size_t end) {
    const std::string_view secret = text.substr(begin, end - begin);
    if (!secret.empty() && secret != kMask && !secret.starts_with("${"))
      found.push_back({begin, end});
  };
  for (std::size_t at = 0; (at = text.find(kStart, at)) != text.npos;) {
    const bool is_http =
        text.substr(0, at).ends_with("http") || text.substr(0, at).ends_with("https");
    at += kStart.size();
    const std::size_t stop = std::min(text.find_first_of(kStops, at), text.size());
    const std::size_t path = std::min(text.find_first_of("/?#", at), stop);
    const std::size_t user = text.substr(at, path - at).rfind('@');
    if (user != text.npos) {
      const std::size_t colon = text.substr(at, user).find(':');
      if (colon != text.npos) add(at + colon + 1, at + user);
      else if (is_http) add(at, at + user);
    }
    for (std::size_t word = text.find('?', path); word < stop;) {
      ++word;
      const std::size_t end = std::min(text.find_first_of("&;#", word), stop);
      const std::size_t equals = text.find('=', word);
      if (equals < end && names_a_secret(text.substr(word, equals - word))) add(equals + 1, end);
      word = end;
    }
    at = stop;
  }
  return found;
}

}  // namespace

bool is_address(std::string_view path) {
  const std::size_t end = path.find("://");
  return end != path.npos && end > 0 &&
         std::ranges::all_of(path.substr(0, end), [](unsigned char c) {
           return std::isalnum(c) || c == '+' || c == '-' || c == '.';
         });
}

bool names_a_secret(std::string_view variable) {
  const std::string name = in_capitals(variable);
  return has_any(name, {"TOKEN", "KEY"}) || names_password(name);
}

bool is_secret_key(std::string_view key) {
  return names_a_secret(without(without(in_capitals(key), "TOKENIZER"), "OC.DICT.KEYS"));
}

bool is_secret_key_of(std::string_view key, std::int64_t number) {
  constexpr std::int64_t kNoCount =
      100000;  // a token or key made of digits has more digits than a size or an index
  const std::string name = in_capitals(key);
  if (is_pass(name) ||
      ends_with_any(name, {"SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "AUTH", "CREDENTIAL"}))
    return true;
  return ends_with_any(name, {"TOKEN", "KEY"}) && (number >= kNoCount || number <= -kNoCount);
}

std::string quotable_line(std::string_view line) {
  std::string result(line);
  const auto hide = [&](std::size_t from, std::size_t to) {
    std::fill(&result[from], result.data() + to, '*');
  };
  for (const Span& secret : url_secrets(line)) hide(secret.begin, secret.end);
  bool has_opened = false;    // true after the start of a mapping or list
  std::size_t next_stop = 0;  // the end of a value inside a mapping or list, looked up only once
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
    const bool is_code = key.ends_with(".py");  // the entry "my_tokens.py:make"
    if (key.empty() || is_code || !is_secret_key(key)) continue;
    // In a mapping on one line, other entries may follow the value.
    const bool is_inside = line[at] == ':' && has_opened;
    if (next_stop < value) next_stop = std::min(line.find_first_of(",}]", value), line.size());
    const std::size_t end = is_inside ? next_stop : line.size();
    const bool is_never_closed =
        line.substr(value).starts_with("${") && line.find('}', value) == line.npos;
    if (is_no_secret(line.substr(value, end - value)) && !is_never_closed) continue;
    if (is_count(key, line.substr(value, end - value))) continue;
    hide(value, end);
    at = std::max(at, end - 1);
  }
  return result;
}

std::string without_url_secrets(std::string_view text) {
  std::string result;
  std::size_t copied = 0;
  for (const Span& secret : url_secrets(text)) {
    result += text.substr(copied, secret.begin - copied);
    result += "***";
    copied = secret.end;
  }
  return result += text.substr(copied);
}

std::string without_quoted_secrets(std::string_view message) {
  const std::string text = without_url_secrets(message);
  std::string result;
  std::size_t copied = 0;
  for (std::size_t at = 0; (at = text.find('=', at)) != text.npos; ++at) {
    std::size_t begin = at;
    while (begin > copied && is_name_letter(text[begin - 1])) --begin;
    const std::string_view key = std::string_view(text).substr(begin, at - begin);
    if (key == "key" || !is_secret_key(key)) continue;  // "write key=value"
    while (begin > copied && (text[begin - 1] == '+' || text[begin - 1] == '~')) --begin;
    const std::size_t line = std::min(text.find('\n', at), text.size());
    std::size_t end = line;
    if (begin > 0 && text[begin - 1] == '\'') end = std::min(text.rfind('\'', line - 1), line);
    if (end <= at) end = line;
    const std::string_view value = std::string_view(text).substr(at + 1, end - at - 1);
    if (is_no_secret(value) || value.find("***") != value.npos || is_count(key, value)) continue;
    result += text.substr(copied, at + 1 - copied) + "***";
    copied = end;
    at = end - 1;
  }
  return result += text.substr(copied);
}

}  // namespace runner
