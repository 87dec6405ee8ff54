#include "runner/parent/report/table_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr std::size_t kGap = 2;  // columns between two cells

bool looks_like_number(std::string_view cell) {
  return cell == "–" ||
         (!cell.empty() && std::string_view("0123456789-").find(cell[0]) != std::string_view::npos);
}

bool has_letter(std::string_view cell) {
  return std::ranges::any_of(cell, [](unsigned char letter) { return std::isalpha(letter); });
}

/// A column of a table as it is printed.
struct TableColumn {
  std::size_t index = 0;  ///< within a row
  std::size_t width = 0;
  std::size_t least = 0;  // the smallest width to which it can be reduced
  bool is_right_aligned = false;
};

/// Wraps a cell into lines of at most `width` columns.
std::vector<std::string> wrapped(const std::string& cell, std::size_t width) {
  if (columns(cell) <= width) return {cell};
  std::vector<std::string> lines;
  std::istringstream words(cell);
  for (std::string word; words >> word;) {
    word = without_middle(word, width);
    if (!lines.empty() && columns(lines.back()) + 1 + columns(word) <= width)
      lines.back() += " " + word;
    else lines.push_back(std::move(word));
  }
  return lines;
}

/// True if cells of the column that differ still differ when they are `width` columns wide.
bool stay_distinct(const TableRows& rows, std::size_t column, std::size_t width) {
  std::map<std::vector<std::string>, std::string> seen;  // maps the lines of each cell to the cell
  for (const auto& row : rows) {
    if (column >= row.size()) continue;
    const auto [known, is_new] = seen.try_emplace(wrapped(row[column], width), row[column]);
    if (!is_new && known->second != row[column]) return false;
  }
  return true;
}

/// Returns the columns with their full widths.
std::vector<TableColumn> columns_of(const TableRows& rows) {
  const std::vector<bool> is_number = number_columns(rows);
  std::vector<TableColumn> result(is_number.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = {.index = i, .is_right_aligned = is_number[i]};
    for (const auto& row : rows)
      if (i < row.size()) result[i].width = std::max(result[i].width, columns(row[i]));
  }
  return result;
}

/// Returns the minimum width of a column.
std::size_t least_width(const TableRows& rows, const TableColumn& column) {
  constexpr std::size_t kLeast = 12, kMore = 4;
  const std::size_t i = column.index;
  const bool is_text = std::ranges::any_of(rows.begin() + 1, rows.end(), [&](const auto& row) {
    return i < row.size() && has_letter(row[i]);
  });
  if (column.is_right_aligned || !is_text) return column.width;
  const std::size_t heading = i < rows.front().size() ? columns(rows.front()[i]) : 0;
  std::size_t least = std::min(column.width, std::max(std::min(heading, 2 * kLeast), kLeast));
  while (least < column.width && !stay_distinct(rows, i, least))
    least = std::min(column.width, least + kMore);
  return least;
}

std::size_t width_of(const std::vector<TableColumn>& block) {
  std::size_t sum = 0;
  for (const TableColumn& column : block) sum += column.width + kGap;
  return sum - std::min(sum, kGap);
}

/// Divides the columns among tables that can be made narrow enough; each includes the first column.
std::vector<std::vector<TableColumn>> blocks_of(const std::vector<TableColumn>& columns,
                                                std::size_t width) {
  std::vector<std::vector<TableColumn>> blocks;
  std::size_t used = 0;
  for (const TableColumn& column : columns) {
    if (blocks.empty() || (used + kGap + column.least > width && blocks.back().size() > 1)) {
      blocks.emplace_back();
      used = 0;
      if (column.index > 0) {
        blocks.back().push_back(columns.front());
        used = columns.front().least;
      }
    }
    used += (blocks.back().empty() ? 0 : kGap) + column.least;
    blocks.back().push_back(column);
  }
  return blocks;
}

/// Makes the widest columns narrower until the block fits or nothing can be narrowed further.
std::vector<TableColumn> fitted(std::vector<TableColumn> block, std::size_t width) {
  for (std::size_t sum = width_of(block); sum > width; --sum) {
    const auto slack = [](const TableColumn& one) { return one.width > one.least ? one.width : 0; };
    const auto widest = std::ranges::max_element(block, {}, slack);
    if (widest == block.end() || slack(*widest) == 0) break;
    --widest->width;
  }
  return block;
}

std::string row_text(const std::vector<std::string>& row, const std::vector<TableColumn>& block) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (const TableColumn& column : block) {
    cells.push_back(column.index < row.size() ? wrapped(row[column.index], column.width)
                                              : std::vector<std::string>{});
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (std::size_t k = 0; k < height; ++k) {
    std::string line;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::string cell = k < cells[i].size() ? cells[i][k] : "";
      const std::size_t size = columns(cell);
      const std::string padding(block[i].width - std::min(size, block[i].width), ' ');
      line += std::string(i == 0 ? 0 : kGap, ' ') +
              (block[i].is_right_aligned ? padding + cell : cell + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string block_text(const TableRows& rows, const std::vector<TableColumn>& block) {
  std::string text;
  for (const auto& row : rows) text += row_text(row, block);
  return text;
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

std::string table_text(const TableRows& rows, std::size_t width) {
  std::vector<TableColumn> columns = columns_of(rows);
  if (width_of(columns) <= width) return block_text(rows, columns);
  // Takes longer than all the rest, because it compares shortened cells.
  for (TableColumn& column : columns) column.least = least_width(rows, column);
  std::string text;
  for (std::vector<TableColumn>& block : blocks_of(columns, width))
    text += (text.empty() ? "" : "\n") + block_text(rows, fitted(std::move(block), width));
  return text;
}

}  // namespace runner
