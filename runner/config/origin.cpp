#include "runner/config/origin.h"

namespace runner {

std::string origin_text(const Location& where) {
  if (!where.source) return "";
  const SourceText& source = *where.source;
  // Files end in .yaml, so no file has such a name.
  const bool is_override = source.name.starts_with("override ") && !source.name.ends_with(".yaml");
  return is_override ? "override '" + source.contents + "'" : source.name + ":" + std::to_string(where.line);
}

}  // namespace runner
