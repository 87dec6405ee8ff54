#include "runner/shared/text/comment_header.h"

#include <algorithm>

namespace runner {

std::vector<std::string> comment_header(std::string_view text) {
  std::vector<std::string> lines;
  while (text.starts_with('#')) {
    std::string_view line = text.substr(1, text.find('\n') - 1);
    text.remove_prefix(std::min(text.size(), line.size() + 2));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(' ')) line.remove_prefix(1);
    const bool is_for_programs =
        line.starts_with("yaml-language-server:") || line.starts_with("@package");
    if (is_for_programs || (line.empty() && lines.empty())) continue;
    lines.emplace_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::string first_sentence(std::string_view text) {
  std::string sentence;
  for (const std::string& line : comment_header(text)) {
    if (line.empty()) break;
    sentence += (sentence.empty() ? "" : " ") + line;
    const std::size_t stop = sentence.find(". ");
    if (stop != sentence.npos) return sentence.substr(0, stop + 1);
  }
  return sentence;
}

}  // namespace runner
