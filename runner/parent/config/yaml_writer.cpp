#include "runner/parent/config/yaml_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

constexpr std::size_t kMaxSimpleKey = 1000;  // beyond 1024 characters, YAML requires "? key"

/// True if `text` starts with a control character from U+0080 to U+009F, which has two bytes.
bool is_wide_control(std::string_view text) {
  return text.size() > 1 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
}

/// True if `text` contains characters that plain and single-quoted scalars cannot have: controls,
/// and line separators beyond ASCII.
bool needs_escapes(std::string_view text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(text, is_control)) return true;
  for (std::size_t at = 0; (at = text.find('\xc2', at)) != text.npos; ++at) {
    if (is_wide_control(text.substr(at))) return true;
  }
  return text.find("\u2028") != text.npos || text.find("\u2029") != text.npos ||
         text.find("\ufeff") != text.npos;
}

bool is_plain(std::string_view text) {
  constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@`<=";
  if (text.empty() || kIndicators.find(text.front()) != text.npos) return false;
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':' || text.starts_with("..."))
    return false;
  if (text.find(": ") != text.npos || text.find(" #") != text.npos) return false;
  const auto other_yaml_bool = [&] {
    return text.size() == 1 && std::string_view("yYnN").find(text) != text.npos;
  };
  const std::optional<PlainScalar> read = plain_scalar(text);
  const bool is_string =
      read && std::holds_alternative<std::string>(read->data) && read->form == ScalarForm::kPlain;
  return is_string && !other_yaml_bool();
}

std::string single_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    result += c;
    if (c == '\'') result += c;
  }
  return result + "'";
}

std::string string_text(std::string_view text) {
  if (needs_escapes(text)) return quoted_yaml(text);
  return is_plain(text) ? std::string(text) : single_quoted(text);
}

/// Converts a result of float_text() to the notation of YAML.
std::string yaml_float(std::string text) {
  if (text == "nan" || text == "inf") return "." + text;
  if (text == "-inf") return "-.inf";
  const std::size_t e = text.find('e');
  if (e != std::string::npos && text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

std::string key_as_yaml(const Entry& entry) {
  switch (entry.key_type) {
    case KeyType::kString:
      return string_text(entry.key);
    case KeyType::kFloat:
      return yaml_float(entry.key);
    case KeyType::kInteger:
    case KeyType::kBool:
    case KeyType::kNull:
      return entry.key;
  }
  return entry.key;
}

/// Returns the text of `value` after "key:" or "-" on the same line; nullopt for a non-empty
/// container.
std::optional<std::string> inline_text(const Value& value) {
  if (!value.secret_as.empty()) return string_text(value.secret_as);
  if (value.form == ScalarForm::kBigInteger) return scalar_text(value);
  if (const auto* text = value.text()) return string_text(*text);
  if (const auto* number = std::get_if<double>(&value.data)) return yaml_float(float_text(*number));
  if (const auto* list = value.list())
    return list->empty() ? std::optional<std::string>("[]") : std::nullopt;
  if (const auto* map = value.map())
    return map->empty() ? std::optional<std::string>("{}") : std::nullopt;
  return scalar_text(value);
}

/// Writes a non-empty container; `start` is the beginning of its first line.
void write(std::vector<YamlLine>& lines, const Value& value, std::string start,
           const std::string& indent) {
  const auto next_start = [&] { return std::exchange(start, indent); };
  if (const auto* list = value.list()) {
    for (const Value& item : *list) {
      const std::string dash = next_start() + "- ";
      if (const auto text = inline_text(item)) lines.push_back({dash + *text, &item});
      else write(lines, item, dash, indent + "  ");
    }
    return;
  }
  for (const Entry& entry : *value.map()) {
    const std::string name = key_as_yaml(entry);
    const bool is_simple = name.size() <= kMaxSimpleKey;
    std::string key = next_start() + (is_simple ? "" : "? ") + name;
    if (!is_simple) lines.push_back({std::exchange(key, indent), &entry.value});
    key += ':';
    if (const auto text = inline_text(entry.value)) {
      lines.push_back({key + ' ' + *text, &entry.value});
      continue;
    }
    lines.push_back({std::move(key), &entry.value});
    const std::string below = entry.value.list() && is_simple ? indent : indent + "  ";
    write(lines, entry.value, below, below);
  }
}

}  // namespace

std::string quoted_yaml(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::string_view rest = text.substr(i);
    if (c == '"' || c == '\\') result += {'\\', text[i]};
    else if (c == '\n') result += "\\n";
    else if (c == '\t') result += "\\t";
    else if (c < 0x20 || c == 0x7f) result += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    else if (is_wide_control(rest))
      result += {'\\', 'x', kHex[static_cast<unsigned char>(rest[1]) >> 4], kHex[rest[1] & 15]},
          i += 1;
    else if (rest.starts_with("\u2028")) result += "\\u2028", i += 2;
    else if (rest.starts_with("\u2029")) result += "\\u2029", i += 2;
    else if (rest.starts_with("\ufeff")) result += "\\uFEFF", i += 2;
    else result += text[i];
  }
  return result + '"';
}

std::vector<YamlLine> yaml_lines(const Value& value) {
  std::vector<YamlLine> lines;
  if (const auto text = inline_text(value)) lines.push_back({*text, &value});
  else write(lines, value, "", "");
  return lines;
}

std::string write_yaml(const Value& value) {
  std::string text;
  for (const YamlLine& line : yaml_lines(value)) text += line.text + '\n';
  return text;
}

}  // namespace runner
