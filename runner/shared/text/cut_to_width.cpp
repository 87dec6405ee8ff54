#include "runner/shared/text/cut_to_width.h"

#include "runner/shared/text/printable.h"

namespace runner {

std::string cut_to_width(std::string_view line, std::size_t most) {
  if (columns(line) <= most) return std::string(line);
  if (most < 3) return std::string(first_columns(line, most));
  std::string_view start = first_columns(line, most - 1);  // a blank may follow the last word
  const std::size_t end = start.find_last_of(' ');
  if (end == start.npos) return std::string(first_columns(line, most - 1)) + "…";
  start = start.substr(0, start.find_last_not_of(' ', end) + 1);
  return std::string(start) + " …";
}

}  // namespace runner
