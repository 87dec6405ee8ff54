#include "runner/config/origin.h"

#include <algorithm>

#include "runner/config/yaml_writer.h"

namespace runner {

std::string origin_text(const Location& where) {
  if (!where.source) return "";
  const SourceText& source = *where.source;
  // Files end in .yaml, so no file has such a name.
  const bool is_override = source.name.starts_with("override ") && !source.name.ends_with(".yaml");
  return is_override ? "override '" + source.contents + "'" : source.name + ":" + std::to_string(where.line);
}

std::string yaml_with_origins(const Value& value) {
  constexpr std::size_t kWidest = 60;  // longer lines do not push all origins to the right
  const std::vector<YamlLine> lines = yaml_lines(value);
  std::size_t width = 0;
  for (const YamlLine& line : lines) {
    if (line.text.size() <= kWidest) width = std::max(width, line.text.size());
  }
  std::string text;
  for (const auto& [line, shown] : lines) {
    const bool opens = (shown->list() && !shown->list()->empty()) || (shown->map() && !shown->map()->empty());
    const std::string origin = opens ? "" : shown->is_default ? "default" : origin_text(shown->where);
    text += line;
    if (!origin.empty()) text += std::string(line.size() < width ? width - line.size() : 0, ' ') + "    # " + origin;
    text += '\n';
  }
  return text;
}

}  // namespace runner
