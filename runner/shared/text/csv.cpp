#include "runner/shared/text/csv.h"

#include <array>
#include <cassert>
#include <charconv>

namespace runner {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

std::string csv_line(const std::vector<std::string>& fields) {
  assert(!fields.empty());
  std::string line;
  for (const std::string& field : fields) line += csv_field(field) + ',';
  line.back() = '\n';
  return line;
}

std::string csv_number(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::optional<std::vector<std::string>> take_csv_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char letter = text[at];
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (letter == '"' && is_quoted && next == '"') fields.back() += text[++at];
    else if (letter == '"') is_quoted = !is_quoted;
    else if (is_quoted) fields.back() += letter;
    else if (letter == ',') fields.emplace_back();
    else if (letter == '\n') break;
    else if (letter != '\r' || next != '\n') fields.back() += letter;
  }
  text.remove_prefix(at < text.size() ? at + 1 : at);
  return fields;
}

}  // namespace runner
