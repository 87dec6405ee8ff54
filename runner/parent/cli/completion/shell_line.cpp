#include "runner/parent/cli/completion/shell_line.h"

#include <algorithm>

namespace runner {

ShellLine read_shell_line(std::string_view line, std::string_view breaks) {
  ShellLine result{.words = {""}};
  char quote = 0;
  bool in_word = false;
  const auto keep = [&result] { result.kept = result.words.back().size(); };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    std::string& word = result.words.back();
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
      in_word = true;
      if (breaks.find(c) != breaks.npos) keep();
    } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      const bool is_escape = !quote || line[i + 1] == '"' || line[i + 1] == '\\' || line[i + 1] == '$';
      if (!is_escape) word += c;
      word += line[++i];
      in_word = true;
    } else if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      if (in_word) result.words.emplace_back();
      in_word = false;
      result.kept = 0;
    } else {
      word += c;
      in_word = true;
      if (!quote && breaks.find(c) != breaks.npos) keep();
    }
  }
  result.in_quotes = quote != 0;
  return result;
}

std::string shell_replacement(const ShellLine& line, std::string_view text) {
  const std::string_view rest = text.substr(std::min(line.kept, text.size()));
  if (line.in_quotes) return std::string(rest);
  std::string result;
  for (const char c : rest) {
    if (std::string_view(" \\'\"$`&;|<>()*?#!").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

}  // namespace runner
