#include "runner/parent/report/table_text.h"

#include <algorithm>
#include <string_view>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

bool looks_like_number(std::string_view cell) {
  return cell == "–" ||
         (!cell.empty() && std::string_view("0123456789-").find(cell[0]) != std::string_view::npos);
}

}  // namespace

std::vector<bool> number_columns(const TableRows& rows) {
  std::vector<bool> are_numbers;
  for (const auto& row : rows) {
    are_numbers.resize(std::max(are_numbers.size(), row.size()), true);
    if (&row == rows.data()) continue;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (!looks_like_number(row[i])) are_numbers[i] = false;
  }
  return are_numbers;
}

std::string table_text(const TableRows& rows) {
  const std::vector<bool> is_right = number_columns(rows);
  std::vector<std::size_t> widths(is_right.size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
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
