#include "runner/parent/report/table.h"

#include <algorithm>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && (cell == "–" || std::string_view("0123456789-").find(cell[0]) != std::string_view::npos);
}

}  // namespace

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<bool> is_right;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    is_right.resize(widths.size(), true);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], columns(row[i]));
      if (&row != rows.data() && !is_number(row[i])) is_right[i] = false;
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - columns(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (is_right[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace runner
