#pragma once

#include <string>
#include <vector>

namespace runner {

/// Rows of cells; the first row is the heading, and trailing cells of a row may be missing.
using TableRows = std::vector<std::vector<std::string>>;

/// Returns, for each column, whether all cells below its heading look like numbers, that is, begin
/// with a digit, a minus sign or a dash. Such a column is right-aligned.
std::vector<bool> number_columns(const TableRows& rows);

/// Returns `rows` as a table. Columns are separated by two spaces, and lines have no trailing
/// spaces.
std::string table_text(const TableRows& rows);

}  // namespace runner
