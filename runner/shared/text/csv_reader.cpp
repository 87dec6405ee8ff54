#include "runner/shared/text/csv_reader.h"

namespace runner {

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
